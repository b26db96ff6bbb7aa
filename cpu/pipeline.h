/* What struct terp_cpu_engine holds; codec/engine.h tells of each. */
#pragma once

#include "codec/engine.h"

terp_cpu_encoder terp_cpu_encode;
terp_cpu_decoder terp_cpu_decode;
terp_cpu_inspector terp_cpu_inspect;
terp_cpu_meter terp_cpu_measure;
terp_cpu_again terp_cpu_encode_changed;

/* Without references to values before. */
terp_cpu_encoder terp_cpu_encode_plainly;
