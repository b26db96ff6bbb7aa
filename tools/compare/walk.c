/* terp compare: reads two datasets side by side. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/format/types.h"
#include "tools/common/members.h"
#include "tools/compare/compare.h"

/* Limit of a step's values where neither dataset has chunks; bounds memory. */
#define STEP_NVALUES ((uint64_t)1 << 22)

/* Steps are chunks of B, chunks of A, or whole rows. */
static struct tool_grid
plan_steps(const struct tool_dataset *a, const struct tool_dataset *b)
{
    struct tool_grid grid =
        tool_grid_of(b, b->chunked ? b->chunk_dims : a->chunk_dims);
    uint64_t nvalues = STEP_NVALUES;

    if (b->chunked || a->chunked)
        return grid;
    for (int i = grid.rank - 1; i >= 0; i--) {
        grid.step[i] = min_u64(grid.dims[i], nvalues);
        nvalues /= grid.step[i];
        if (nvalues == 0)
            nvalues = 1;
    }
    return grid;
}

enum terp_type
compare_type_of_values(const struct tool_dataset *a,
                       const struct tool_dataset *b)
{
    const enum terp_type type = tool_coded_type(a->type);
    const struct terp_params *params = &b->cd.params;

    if (terp_type_is_half(type))
        return TERP_FLOAT32;
    if (terp_type_nparts(type) > 1)
        return TERP_FLOAT64;
    if (terp_type_is_integer(type) && b->has_terp &&
        b->cd.pass == TERP_PASS_NONE &&
        params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound >= 1)
        return TERP_FLOAT64;
    return tool_type(a->type);
}

/* A complex value in memory is a pair of doubles. */
static hid_t
make_pair_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, 2 * sizeof(double));

    H5Tinsert(type, "r", 0, H5T_NATIVE_DOUBLE);
    H5Tinsert(type, "i", sizeof(double), H5T_NATIVE_DOUBLE);
    return type;
}

/* Reads one member of compound values. */
static void
choose_member(struct compare_walk *walk)
{
    const struct tool_dataset *a = walk->a;

    walk->member_type =
        tool_member_wrap(a->whole_type, a->member_at, walk->value_type);
    walk->value_type = walk->member_type;
    walk->value_nbytes *= a->nelements;
    walk->ncomponents *= a->nelements;
    if (walk->member_type < 0)
        walk->trouble = "HDF5 cannot make a type for the member";
}

/* Chooses the type of values in memory. */
static void
choose_type(struct compare_walk *walk)
{
    walk->ncomponents =
        (uint64_t)terp_type_nparts(tool_coded_type(walk->a->type));
    walk->pair_type = walk->ncomponents > 1 ? make_pair_type() : -1;
    walk->type = compare_type_of_values(walk->a, walk->b);
    walk->value_type = walk->ncomponents > 1        ? walk->pair_type
                       : walk->type == TERP_FLOAT32 ? H5T_NATIVE_FLOAT
                       : walk->type == TERP_FLOAT64 ? H5T_NATIVE_DOUBLE
                                                    : walk->a->type;
    walk->value_nbytes = walk->ncomponents > 1        ? 2 * sizeof(double)
                         : walk->type == TERP_FLOAT32 ? sizeof(float)
                         : walk->type == TERP_FLOAT64 ? sizeof(double)
                         : walk->a->is_member ? H5Tget_size(walk->a->type)
                                              : walk->a->value_nbytes;
    if (walk->a->is_member)
        choose_member(walk);
}

/* Finds the values that must stay bit for bit. */
static void
find_fills(struct compare_walk *walk)
{
    if (walk->type != TERP_BYTES && walk->ncomponents == 1 &&
        !walk->a->is_member)
        walk->has_fill = tool_fill_bits(walk->a, walk->type == TERP_FLOAT64,
                                        &walk->fill_bits);
    walk->has_missing = walk->b->has_terp && walk->b->cd.has_missing;
    walk->missing = walk->type == TERP_FLOAT32
                        ? (double)(float)walk->b->cd.missing
                        : walk->b->cd.missing;
}

/* Analyses types that are compared by content. */
static void
look_into(struct compare_walk *walk)
{
    if (walk->type != TERP_BYTES || walk->trouble != NULL)
        return;
    walk->nested = nested_type_make(walk->a->type, &walk->trouble);
    walk->cannot_compare = walk->nested == NULL;
    if (walk->nested == NULL || !nested_has_heap(walk->nested))
        return;
    tool_heap_open(&walk->heap_a);
    tool_heap_open(&walk->heap_b);
    if (walk->heap_a.dxpl < 0 || walk->heap_b.dxpl < 0)
        walk->trouble = "not enough memory for its values";
}

/* Allocates the values of one step. */
static bool
prepare(struct compare_walk *walk, const struct tool_dataset *a,
        const struct tool_dataset *b, uint64_t nvalues)
{
    walk->a = a;
    walk->b = b;
    walk->nsame = walk->nboxes = 1;
    choose_type(walk);
    find_fills(walk);
    look_into(walk);
    if (walk->trouble != NULL)
        return false;
    walk->values_a = calloc(nvalues, walk->value_nbytes);
    walk->values_b = calloc(nvalues, walk->value_nbytes);
    if (walk->values_a == NULL || walk->values_b == NULL)
        walk->trouble = "not enough memory for a chunk";
    return walk->trouble == NULL;
}

bool
compare_walk_open(struct compare_walk *walk, const struct tool_dataset *a,
                  const struct tool_dataset *b, struct nested_files *files)
{
    struct tool_boxes boxes;

    *walk = COMPARE_WALK_NONE;
    walk->files = files;
    walk->grid = plan_steps(a, b);
    if (!prepare(walk, a, b, tool_grid_cap(&walk->grid)))
        return false;
    walk->boxes = tool_boxes_written(b, &walk->grid);
    boxes = tool_boxes_written(a, &walk->grid);
    tool_boxes_merge(&walk->boxes, &boxes);
    tool_boxes_free(&boxes);
    return true;
}

void
compare_walk_close(struct compare_walk *walk)
{
    tool_chunk_free(&walk->chunk);
    tool_boxes_free(&walk->boxes);
    tool_close(walk->pair_type);
    tool_close(walk->member_type);
    nested_type_free(walk->nested);
    tool_heap_close(&walk->heap_a);
    tool_heap_close(&walk->heap_b);
    free(walk->values_a);
    free(walk->values_b);
}

static bool
read_one(struct compare_walk *walk, const struct tool_dataset *dataset,
         struct tool_heap *heap, const hsize_t *stride, void *values)
{
    tool_heap_clear(heap);
    return tool_box_read_by(heap->dxpl >= 0 ? heap->dxpl : H5P_DEFAULT, dataset,
                            walk->value_type, &walk->grid, stride, values);
}

static bool
read_both(struct compare_walk *walk, const hsize_t *stride)
{
    if (read_one(walk, walk->a, &walk->heap_a, stride, walk->values_a) &&
        read_one(walk, walk->b, &walk->heap_b, stride, walk->values_b))
        return true;
    tool_hdf5_reason(walk->reason, sizeof walk->reason);
    walk->trouble = walk->reason;
    return false;
}

static void
note_unwritten(struct compare_walk *walk, uint64_t number)
{
    if (!walk->has_unwritten)
        walk->unwritten = number;
    walk->has_unwritten = true;
}

/* Goes to the next listed box. */
static bool
next_listed(struct compare_walk *walk)
{
    const struct tool_boxes *boxes = &walk->boxes;

    if (walk->next_box < boxes->n) {
        const uint64_t number = boxes->numbers[walk->next_box];
        if (number != walk->next_box)
            note_unwritten(walk, walk->next_box);
        walk->next_box++;
        walk->grid.next = number;
        return tool_grid_next(&walk->grid);
    }
    if (boxes->n < tool_grid_nboxes(&walk->grid))
        note_unwritten(walk, boxes->n);
    return false;
}

/* Goes to the next box of which A or B stores values. */
static bool
next_written(struct compare_walk *walk)
{
    if (!walk->boxes.all)
        return next_listed(walk);
    for (;;) {
        const uint64_t number = walk->grid.next;
        if (!tool_grid_next(&walk->grid))
            return false;
        if (tool_box_is_written(walk->b, &walk->grid) ||
            tool_box_is_written(walk->a, &walk->grid))
            return true;
        note_unwritten(walk, number);
    }
}

/* Goes to one value that represents all values that neither dataset stores. */
static bool
next_unwritten(struct compare_walk *walk)
{
    if (walk->is_done || !walk->has_unwritten)
        return false;
    walk->is_done = true;
    walk->nboxes = tool_grid_nboxes(&walk->grid) - walk->nboxes_read;
    walk->grid.next = walk->unwritten;
    if (!tool_grid_next(&walk->grid))
        return false;
    for (int i = 0; i < walk->grid.rank; i++)
        walk->grid.count[i] = 1;
    walk->grid.nvalues = 1;
    walk->nsame = walk->a->nvalues - walk->nread;
    return true;
}

bool
compare_walk_next(struct compare_walk *walk)
{
    if (walk->trouble != NULL || walk->is_done)
        return false;
    if (!next_written(walk))
        return next_unwritten(walk) && read_both(walk, NULL);
    walk->nread += walk->grid.nvalues;
    walk->nboxes_read++;
    return read_both(walk, NULL);
}

static void
set_box(struct compare_walk *walk, const struct tool_grid *box)
{
    walk->grid = *box;
    walk->grid.nvalues = 1;
    for (int i = 0; i < box->rank; i++)
        walk->grid.nvalues *= box->count[i];
}

bool
compare_walk_slice(struct compare_walk *walk, const struct tool_dataset *a,
                   const struct tool_dataset *b, const struct tool_grid *slice)
{
    *walk = COMPARE_WALK_NONE;
    set_box(walk, slice);
    return prepare(walk, a, b, walk->grid.nvalues) &&
           read_both(walk, slice->step);
}

bool
compare_walk_open_boxes(struct compare_walk *walk, const struct tool_dataset *a,
                        const struct tool_dataset *b, uint64_t nvalues)
{
    *walk = COMPARE_WALK_NONE;
    return prepare(walk, a, b, nvalues);
}

bool
compare_walk_box(struct compare_walk *walk, const struct tool_grid *box)
{
    set_box(walk, box);
    return read_both(walk, NULL);
}

bool
compare_walk_value(const struct compare_walk *walk, uint64_t i, double *a_ret,
                   double *b_ret, bool *changed_ret)
{
    const bool wide = walk->type == TERP_FLOAT64;
    uint64_t bits = tool_value_bits(wide, walk->values_a, i);

    *a_ret = tool_value_at(wide, walk->values_a, i);
    *b_ret = tool_value_at(wide, walk->values_b, i);
    *changed_ret = bits != tool_value_bits(wide, walk->values_b, i);
    return isfinite(*a_ret) && !(walk->has_fill && bits == walk->fill_bits) &&
           !(walk->has_missing &&
             bits == tool_number_bits(wide, walk->missing));
}

bool
compare_walk_is_same(struct compare_walk *walk)
{
    return (!nested_has_references(walk->nested) &&
            memcmp(walk->values_a, walk->values_b,
                   walk->grid.nvalues * walk->value_nbytes) == 0) ||
           nested_equal(walk->files, walk->nested,
                        walk->grid.nvalues * walk->ncomponents, walk->values_a,
                        walk->values_b);
}
