/* Builds and prints JSON documents with jansson. */
#include "tools/common/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/terp.h"
#include "tools/common/tool.h"

static json_t *
need(json_t *value)
{
    if (value == NULL) {
        fprintf(stderr, "terp: not enough memory\n");
        exit(TOOL_TROUBLE);
    }
    return value;
}

void
tool_json_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, need(value)) != 0)
        need(NULL);
}

void
tool_json_append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, need(value)) != 0)
        need(NULL);
}

json_t *
tool_json_document(const char *command)
{
    json_t *document = need(json_object());

    tool_json_set_text(document, "terp", TERP_VERSION);
    tool_json_set_text(document, "command", command);
    return document;
}

/* Names in HDF5 may be any bytes; jansson accepts only UTF-8. */
static json_t *
clean_string(const char *text)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t length = strlen(text), at = 0;
    char *clean = malloc(length * (sizeof replacement - 1) + 1);

    if (clean == NULL)
        need(NULL);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x80) {
            clean[at++] = text[i];
        } else {
            memcpy(clean + at, replacement, sizeof replacement - 1);
            at += sizeof replacement - 1;
        }
    }
    json_t *value = json_stringn(clean, at);
    free(clean);
    return value;
}

void
tool_json_set_text(json_t *object, const char *key, const char *text)
{
    json_t *value = json_null();

    if (text != NULL && *text != '\0') {
        value = json_string(text);
        if (value == NULL)
            value = clean_string(text);
    }
    tool_json_set(object, key, value);
}

void
tool_json_set_number(json_t *object, const char *key, double value)
{
    tool_json_set(object, key,
                  isfinite(value) ? json_real(value) : json_null());
}

void
tool_json_set_count(json_t *object, const char *key, uint64_t value)
{
    tool_json_set(object, key, json_integer((json_int_t)value));
}

void
tool_json_set_dims(json_t *object, const char *key, int rank,
                   const hsize_t *dims)
{
    json_t *array = dims != NULL ? json_array() : json_null();

    tool_json_set(object, key, array);
    for (int i = 0; dims != NULL && i < rank; i++)
        tool_json_append(array, json_integer((json_int_t)dims[i]));
}

void
tool_json_print(void *document)
{
    /* main() checks ferror(stdout). */
    json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    printf("\n");
    json_decref(document);
}
