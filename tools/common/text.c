/* Escapes characters that a terminal would obey or not show. */
#include "tools/common/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of texts that one message may show. */
#define NTEXTS 8

/* "\x1b" for one byte. */
#define MAX_ESCAPE_NBYTES 4

/* The length of the UTF-8 character at `text`, and its number; 0 if the bytes
 * are not a Unicode character in its shortest encoding. */
static size_t
read_character(const unsigned char *text, uint32_t *number_ret)
{
    static const uint32_t firsts[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char lead = text[0];
    const size_t nbytes = lead < 0x80             ? 1
                          : (lead & 0xE0) == 0xC0 ? 2
                          : (lead & 0xF0) == 0xE0 ? 3
                          : (lead & 0xF8) == 0xF0 ? 4
                                                  : 0;
    uint32_t number = nbytes < 2 ? lead : lead & (0x7Fu >> nbytes);

    for (size_t i = 1; i < nbytes; i++) {
        if ((text[i] & 0xC0) != 0x80) /* also at the end of the text */
            return 0;
        number = number << 6 | (text[i] & 0x3F);
    }
    *number_ret = number;
    return nbytes == 0 || number < firsts[nbytes] || number > 0x10FFFF ||
                   (number >= 0xD800 && number <= 0xDFFF)
               ? 0
               : nbytes;
}

/* Whether a terminal simply shows the character: it is not a control character,
 * ends no line, and does not change the direction of writing. */
static bool
is_shown(uint32_t number)
{
    return number >= 0x20 && !(number >= 0x7F && number < 0xA0) &&
           number != '\\' && !(number >= 0x2028 && number <= 0x202E) &&
           !(number >= 0x2066 && number <= 0x2069);
}

static size_t
write_escape(unsigned char byte, char *to)
{
    static const char letters[] = "a\ab\bt\tn\nv\vf\fr\r\\\\";

    for (size_t i = 0; letters[i] != '\0'; i += 2)
        if (byte == (unsigned char)letters[i + 1])
            return (size_t)snprintf(to, MAX_ESCAPE_NBYTES + 1, "\\%c",
                                    letters[i]);
    return (size_t)snprintf(to, MAX_ESCAPE_NBYTES + 1, "\\x%02x", byte);
}

/* Writes `text` with escapes to `to`; NULL: only counts. Returns the bytes
 * without the end. */
static size_t
escape(const char *text, char *to)
{
    const unsigned char *at = (const unsigned char *)text;
    char escaped[MAX_ESCAPE_NBYTES + 1];
    size_t nbytes = 0;

    while (*at != '\0') {
        uint32_t number;
        const size_t n = read_character(at, &number);
        const bool shown = n > 0 && is_shown(number);
        for (size_t i = 0; i < (n > 0 ? n : 1); i++, at++) {
            size_t length = 1;
            escaped[0] = (char)*at;
            if (!shown)
                length = write_escape(*at, escaped);
            if (to != NULL)
                memcpy(to + nbytes, escaped, length);
            nbytes += length;
        }
    }
    return nbytes;
}

const char *
tool_shown(const char *text)
{
    static char *texts[NTEXTS];
    static unsigned next;

    const size_t nbytes = escape(text, NULL);
    if (nbytes == strlen(text))
        return text;
    char **slot = &texts[next++ % NTEXTS];
    char *more = realloc(*slot, nbytes + 1);
    if (more == NULL)
        return "(not enough memory for this name)";
    *slot = more;
    escape(text, more);
    more[nbytes] = '\0';
    return more;
}
