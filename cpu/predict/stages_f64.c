/* The loops over binary64 values. */
#define TERP_VALUE_NBYTES 8
#define STAGES terp_cpu_stages_f64
#include "cpu/predict/stages_impl.h"
