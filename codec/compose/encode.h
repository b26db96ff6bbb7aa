/* Encodes chunks under any bound but a PSNR. */
#pragma once

#include "codec/compose/coder.h"

/* Encodes chunks. A chunk that does not become smaller is stored. */
enum terp_status
terp_chunks_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch);
