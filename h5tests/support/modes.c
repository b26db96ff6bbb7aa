/* The pipelines and predictors that tests try. */
#include "h5tests/support/modes.h"

const struct terp_mode terp_mode[TERP_NMODES] = {
    {TERP_PIPELINE_AUTO, TERP_PREDICTOR_AUTO, "auto"},
    {TERP_PIPELINE_HUFFMAN, TERP_PREDICTOR_SPLINE, "huffman/spline"},
    {TERP_PIPELINE_HUFFMAN, TERP_PREDICTOR_LORENZO, "huffman/lorenzo"},
    {TERP_PIPELINE_RATIO, TERP_PREDICTOR_SPLINE, "ratio/spline"},
    {TERP_PIPELINE_RATIO, TERP_PREDICTOR_LORENZO, "ratio/lorenzo"},
    {TERP_PIPELINE_SPEED, TERP_PREDICTOR_AUTO, "speed"},
};
