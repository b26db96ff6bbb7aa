/* JSON as the commands print it, in builds with jansson. Without memory the
 * program ends, since half a document is of no use. */
#ifndef TERP_TOOLS_COMMON_JSON_H
#define TERP_TOOLS_COMMON_JSON_H

#include <hdf5.h>
#include <jansson.h>
#include <stdint.h>

/* { "terp": version, "command": command } */
json_t *
tool_json_document(const char *command);

/* Adds `value`, which it takes over. */
void
tool_json_set(json_t *object, const char *key, json_t *value);

void
tool_json_append(json_t *array, json_t *value);

/* Text as UTF-8; bytes that are not become U+FFFD. NULL becomes null. */
json_t *
tool_json_text(const char *text);

/* A number; null for NaN and infinities, which JSON does not have. */
json_t *
tool_json_number(double value);

json_t *
tool_json_count(uint64_t value);

json_t *
tool_json_dims(int rank, const hsize_t *dims);

/* Prints the document on standard output, and frees it. */
void
tool_json_print(json_t *document);

#endif
