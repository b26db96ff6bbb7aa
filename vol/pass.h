/* The connector's class. */
#pragma once

#include "vol/abi.h"

/* The connector's name in HDF5_VOL_CONNECTOR, and its number. Numbers of
 * projects begin at 512; no registered connector has this one, which is the
 * filter's. */
#define VOL_NAME "terp"
#define VOL_VALUE 46117

extern const struct vol_class vol_pass_class;
