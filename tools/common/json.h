/* JSON output, in builds with jansson. Without memory the program ends: half a
 * document is useless. */
#pragma once

#include <hdf5.h>
#include <jansson.h>
#include <stdint.h>

/* { "terp": version, "command": command } */
json_t *
tool_json_document(const char *command);

/* Adds `value` and takes ownership of it. */
void
tool_json_set(json_t *object, const char *key, json_t *value);

void
tool_json_append(json_t *array, json_t *value);

/* Text as UTF-8; other bytes become U+FFFD. NULL and "" become null. */
void
tool_json_set_text(json_t *object, const char *key, const char *text);

/* A number; NaN and infinities become null. */
void
tool_json_set_number(json_t *object, const char *key, double value);

void
tool_json_set_count(json_t *object, const char *key, uint64_t value);

/* An array; null if `dims` is NULL. */
void
tool_json_set_dims(json_t *object, const char *key, int rank,
                   const hsize_t *dims);

/* Prints the document, a json_t, on standard output and frees it. */
void
tool_json_print(void *document);
