/* All pipelines and predictors that a caller can choose, and AUTO for both. */
#pragma once

#include "codec/api/terp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct terp_mode {
    enum terp_pipeline pipeline;
    enum terp_predictor predictor;
    const char *name;
};

#define TERP_NMODES 6
extern const struct terp_mode terp_mode[TERP_NMODES];

#ifdef __cplusplus
}
#endif
