/* The memory that all predictors share, and the choice among predictors. */
#include "cpu/predict/predictor.h"

#include <stdlib.h>

/* of scratch memory, for vectors */
#define ALIGNMENT 64

const struct cpu_predictor *const terp_cpu_predictors[TERP_NPREDICTIONS] = {
    [TERP_PREDICTION_SPLINE] = &terp_cpu_spline,
    [TERP_PREDICTION_LORENZO] = &terp_cpu_lorenzo,
    [TERP_PREDICTION_LOSSLESS] = &terp_cpu_lossless};

enum terp_status
terp_cpu_prediction_make(struct cpu_prediction *prediction)
{
    const struct terp_layout *layout = prediction->layout;
    uint64_t value_nbytes = (uint64_t)prediction->stages->value_nbytes;
    uint64_t work_nbytes = layout->nvalues * value_nbytes;
    uint64_t lattice_nbytes = layout->nlattice * value_nbytes;
    uint64_t symbols_nbytes = layout->nvalues * sizeof *prediction->symbols;
    uint64_t nworkers = (uint64_t)terp_cpu_pool_nworkers(prediction->pool);
    uint64_t scratch_nbytes =
        (prediction->values == NULL ? CPU_RUN_SCRATCH_NVALUES
                                    : CPU_SAMPLE_SCRATCH_NVALUES) *
        value_nbytes;
    /* One block: freeing several would return memory to the system more often,
     * which zeroes its pages anew for every call. */
    uint8_t *memory = terp_cpu_memory_make(
        prediction->pool, work_nbytes + lattice_nbytes + symbols_nbytes +
                              nworkers * scratch_nbytes + ALIGNMENT);

    if (memory == NULL)
        return TERP_ERR_MEMORY;
    prediction->work = memory;
    prediction->lattice = memory + work_nbytes;
    prediction->symbols = (uint16_t *)(memory + work_nbytes + lattice_nbytes);
    prediction->scratch_nbytes = scratch_nbytes;
    memory += work_nbytes + lattice_nbytes + symbols_nbytes;
    prediction->scratch = memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT);
    return TERP_OK;
}

void
terp_cpu_prediction_free(struct cpu_prediction *prediction)
{
    terp_cpu_memory_free(prediction->pool, prediction->work);
    prediction->work = NULL;
    prediction->lattice = NULL;
    prediction->symbols = NULL;
    prediction->scratch = NULL;
}

enum terp_status
terp_cpu_predictor_choose(struct cpu_prediction *prediction,
                          enum terp_predictor predictor,
                          enum terp_prediction *prediction_ret)
{
    const bool lossless = prediction->nsteps > 0;
    struct terp_price price[TERP_NPREDICTIONS];
    enum terp_status st = TERP_OK;

    for (int i = 0; i < TERP_NPREDICTIONS && st == TERP_OK; i++) {
        price[i] = (struct terp_price){UINT64_MAX, 0};
        if (terp_cpu_predictors[i] != NULL &&
            (lossless ? terp_may_take_losslessly
                      : terp_may_take)(predictor, (enum terp_prediction)i))
            st = terp_cpu_predictors[i]->tune(prediction, &price[i]);
    }
    prediction->spline_cost = price[TERP_PREDICTION_SPLINE].cost;
    prediction->lorenzo_cost = price[TERP_PREDICTION_LORENZO].cost;
    prediction->may_be_splines =
        lossless &&
        terp_may_be_splines(price[TERP_PREDICTION_SPLINE].cost,
                            price[TERP_PREDICTION_LOSSLESS].cost,
                            terp_unit_nbits(prediction->quantizer.wide),
                            prediction->layout->nvalues);
    *prediction_ret = !lossless
                          ? terp_choose_prediction(predictor, price,
                                                   prediction->layout->nvalues)
                      : price[TERP_PREDICTION_SPLINE].cost <
                              price[TERP_PREDICTION_LOSSLESS].cost
                          ? TERP_PREDICTION_SPLINE
                          : TERP_PREDICTION_LOSSLESS;
    return st;
}
