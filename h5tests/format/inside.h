/* What the decoder of decoder/terp_decode.c keeps to itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How many bits the words of an entry of the dictionary have, of symbols or of
 * tokens. */
void
reader_word_nbits(int entry, bool of_tokens, uint8_t *nbits_ret);

uint64_t
reader_checksum(const uint8_t *bytes, size_t nbytes, uint64_t seed);

/* Writes what a whole stream has of the format, a line each. */
void
reader_write_kinds(const uint8_t *stream, size_t nbytes, FILE *file);
