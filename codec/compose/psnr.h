/* Encodes for a PSNR: searches for each chunk's bound. */
#pragma once

#include "codec/compose/coder.h"

/* Finds for each chunk about the largest bound whose stream has the PSNR of the
 * parameters (codec/model/psnr.h), and keeps that stream. */
enum terp_status
terp_psnr_encode(const struct terp_coder *coder,
                 const struct terp_batch *batch);
