/* The connector's class. */
#pragma once

#include "vol/abi.h"

/* The name in HDF5_VOL_CONNECTOR, and a number that no registered connector
 * has: those of projects begin at 512, and 46117 is the filter's. */
#define VOL_NAME "terp"
#define VOL_VALUE 46117

extern const struct vol_class vol_pass_class;
