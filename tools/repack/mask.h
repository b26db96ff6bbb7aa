/* terp repack --mask: variables that say which values of others do not count,
 * such as land masks. */
#pragma once

#include "tools/common/h5file.h"
#include "tools/repack/objects.h"

/* A mask: a variable with a flag for each position. The variable has the last
 * dimensions of the masked dataset, and masks a value if the flag is set at the
 * value's coordinates along these dimensions. */
struct repack_mask {
    const struct repack_mask_rule *rule;
    hid_t variable; /* open */
    int rank;       /* without leading dimensions of length 1 */
    hsize_t dims[H5S_MAX_RANK];
    int nleading;   /* these dimensions of length 1 */
    uint8_t *flags; /* [dims], 1: masked */
    bool used;
};

/* Reads the variables of all masks. */
bool
repack_masks_read(struct repack *repack);

/* After all plans: whether each mask concerns a dataset. */
bool
repack_masks_check(struct repack *repack);

void
repack_masks_free(struct repack *repack);

/* Finds the mask of a dataset that is compressed with loss; NULL if it has
 * none. The last option that fits counts. False where a mask names the dataset
 * but has other dimensions. */
bool
repack_mask_find(struct repack *repack, const struct repack_object *object,
                 const struct tool_dataset *dataset,
                 const struct repack_mask **mask_ret);

/* Sets a flag for each value of a box, 1: masked. Any thread may call this. */
void
repack_mask_box(const struct repack_mask *mask, const struct tool_grid *box,
                uint8_t *flags_ret);
