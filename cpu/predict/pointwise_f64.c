/* Loops of pointwise bounds over binary64 values. */
#define TERP_VALUE_NBYTES 8
#define STAGES terp_cpu_pointwise_f64
#define TINY TERP_F64_TINY
#define SPLIT_IN_F32 terp_split_f64_in_f32
#define VALUE_OF_F32 terp_f64_of_log_in_f32
#define VALUE_OF_F64 terp_f64_of_log
#include "cpu/predict/pointwise_impl.h"
