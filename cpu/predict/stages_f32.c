/* The loops over binary32 values. */
#define TERP_VALUE_NBYTES 4
#define STAGES terp_cpu_stages_f32
#include "cpu/predict/stages_impl.h"
