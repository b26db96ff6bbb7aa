/* The spline predictor over all levels of a chunk. */
#ifndef TERP_CPU_PREDICT_SPLINE_H
#define TERP_CPU_PREDICT_SPLINE_H

#include "codec/api/terp_status.h"
#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* How one level is predicted and how tight its bound is. */
struct cpu_level_plan {
    uint8_t spline;
    uint8_t priorities; /* terp_predicting_dims */
    uint8_t ratio;      /* of the bound, in 1/64: 1 .. 64 */
};

struct cpu_spline {
    const struct cpu_stages *stages;
    const struct terp_layout *layout;
    struct cpu_pool *team;
    void *work;
    void *lattice;
    uint16_t *symbols;
    struct cpu_quantizer quantizer; /* of ratio one */
    struct cpu_level_plan plan[TERP_MAX_LEVELS + 1];
};

/* Allocates work, lattice and symbols. */
enum terp_status
terp_cpu_spline_make(struct cpu_spline *spline);

void
terp_cpu_spline_free(struct cpu_spline *spline);

/* One class of one level, as these dimensions predict it, or as a plan has it.
 * False when it has no points. */
bool
terp_cpu_spline_class(const struct cpu_spline *spline, int l, unsigned odd,
                      unsigned predicting, enum terp_spline kind,
                      struct cpu_class *cls_ret);
bool
terp_cpu_spline_planned_class(const struct cpu_spline *spline, int l,
                              unsigned odd, const struct cpu_level_plan *plan,
                              struct cpu_class *cls_ret);

struct cpu_quantizer
terp_cpu_spline_quantizer(const struct cpu_spline *spline, int l);

/* Values in C order to work order. `fills`: NULL when nothing is special. */
void
terp_cpu_spline_deinterleave(struct cpu_spline *spline, const void *values,
                             const struct cpu_fills *fills);

/* Values in work to their reconstruction; symbols. */
void
terp_cpu_spline_quantize(struct cpu_spline *spline);

/* Symbols, and escaped values in work, to values in C order. */
void
terp_cpu_spline_reconstruct(struct cpu_spline *spline, void *values);

#endif
