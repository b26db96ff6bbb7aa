/* Encoding for a PSNR: the search for the bound of each chunk. */
#pragma once

#include "codec/compose/coder.h"

/* Finds for each chunk the largest bound, about, whose stream has the PSNR that
 * the parameters ask for (codec/model/psnr.h). */
enum terp_status
terp_psnr_encode(const struct terp_coder *coder,
                 const struct terp_batch *batch);
