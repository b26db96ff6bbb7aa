#define T double
#define WORD uint64_t
#define INT int64_t
#define LANES 8
#define ABS(x) fabs(x)
#define T_MAX DBL_MAX
#define ROUNDER 6755399441055744.0
#define MAX_LEVEL 2251799813685247
#define STAGES terp_cpu_stages_f64
#include "cpu/predict/stages_impl.h"
