/* Plain streams: tries the domains, predictors and pipelines that are worth a
 * trial, and keeps the smallest stream. */
#pragma once

#include "codec/compose/coder.h"

/* Encodes chunks of floats or integers as the smallest plain streams.
 * facts_ret[i] gets the facts of chunk i. */
enum terp_status
terp_trials_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch,
                   struct terp_facts *facts_ret);

/* Encodes chunks once, as `trial` says. */
enum terp_status
terp_trial_encode(const struct terp_coder *coder,
                  const struct terp_batch *batch,
                  const struct terp_trial *trial);
