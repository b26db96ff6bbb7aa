#define T float
#define WORD uint32_t
#define INT int32_t
#define LANES 16
#define ABS(x) fabsf(x)
#define T_MAX FLT_MAX
#define ROUNDER 12582912.0f
#define MAX_LEVEL 4194303
#define STAGES terp_cpu_stages_f32
#include "cpu/predict/stages_impl.h"
