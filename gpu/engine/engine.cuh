/* The table by which codec/compose drives the CUDA engine. */
#pragma once

#include "codec/engine.h"

extern const struct terp_engine cuda_engine_table;
