/* Result codes of all functions of terp. Values are pinned: test expectations
 * and other languages rely on them. */
#ifndef TERP_STATUS_H
#define TERP_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum terp_status {
    TERP_OK = 0,
    TERP_ERR_ARGUMENT = 1,  /* a caller broke the function's contract */
    TERP_ERR_BOUND = 2,     /* not finite and positive, nor absolute 0 */
    TERP_ERR_PARAMS = 3,    /* cd_values that terp does not understand */
    TERP_ERR_MEMORY = 4,    /* an allocation failed */
    TERP_ERR_CAPACITY = 5,  /* the destination is too small */
    TERP_ERR_MAGIC = 6,     /* not a terp stream */
    TERP_ERR_VERSION = 7,   /* written by a newer terp, or before 1.0 */
    TERP_ERR_TRUNCATED = 8, /* the stream ends too early */
    TERP_ERR_CHECKSUM = 9,  /* the stream was damaged */
    TERP_ERR_CORRUPT = 10,  /* checksum matches, contents contradict */
    TERP_ERR_DEVICE = 11,   /* no CUDA device, or it failed */
    TERP_ERR_HDF5 = 12,     /* HDF5 failed; its error stack says why */
    TERP_ERR_LIMIT = 13     /* needs more memory than TERP_MAX_MEMORY */
};

/* One English sentence without a full stop. The text is static. */
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
const char *
terp_status_text(enum terp_status status);

#ifdef __cplusplus
}
#endif

#endif
