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

    tool_json_set(document, "terp", json_string(TERP_VERSION));
    tool_json_set(document, "command", json_string(command));
    return document;
}

json_t *
tool_json_text(const char *text)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t length, at = 0;

    if (text == NULL)
        return json_null();
    json_t *value = json_string(text);
    if (value != NULL)
        return value;
    /* The names of HDF5 can be any bytes, but jansson takes only UTF-8. */
    length = strlen(text);
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
    clean[at] = '\0';
    value = json_string(clean);
    free(clean);
    return value;
}

json_t *
tool_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *
tool_json_count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

json_t *
tool_json_dims(int rank, const hsize_t *dims)
{
    json_t *array = need(json_array());

    for (int i = 0; i < rank; i++)
        tool_json_append(array, tool_json_count(dims[i]));
    return array;
}

void
tool_json_print(json_t *document)
{
    /* A failure shows in ferror(stdout), which main() checks. */
    json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    printf("\n");
    json_decref(document);
}
