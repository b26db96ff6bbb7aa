/* Access to internals of the decoder in decoder/terp_decode.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The lengths in bits of the words of a dictionary entry, for symbols or for
 * tokens. */
void
reader_word_nbits(int entry, bool of_tokens, uint8_t *nbits_ret);

uint64_t
reader_checksum(const uint8_t *bytes, size_t nbytes, uint64_t seed);

/* Writes a line for each property of the format that a whole stream has. */
void
reader_write_kinds(const uint8_t *stream, size_t nbytes, FILE *file);
