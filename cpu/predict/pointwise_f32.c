/* Loops of pointwise bounds over binary32 values. */
#define TERP_VALUE_NBYTES 4
#define STAGES terp_cpu_pointwise_f32
#define TINY TERP_F32_TINY
#define SPLIT_IN_F32 terp_split_f32_in_f32
#define VALUE_OF_F32 terp_f32_of_log
#define VALUE_OF_F64 terp_f32_of_log_in_f64
#include "cpu/predict/pointwise_impl.h"
