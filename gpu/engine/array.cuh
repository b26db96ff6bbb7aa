/* Memory functions for callers that keep a whole array on the device and move
 * its chunks to and from the host. struct terp_cuda_engine describes them. */
#pragma once

#include "codec/format/array.h"
#include "gpu/engine/session.cuh"

table_function<decltype(terp_cuda_engine::has)> cuda_array_has;
table_function<decltype(terp_cuda_engine::allocate)> cuda_array_allocate;
table_function<decltype(terp_cuda_engine::release)> cuda_array_release;
table_function<decltype(terp_cuda_engine::move)> cuda_array_move;
