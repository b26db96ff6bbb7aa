/* Writes HTML into memory. */
#include "tools/report/html.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/text.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"

/* Larger numbers are not shown with decimals. */
#define MAX_FIXED 1e3

/* ---- memory ---- */

void
html_free(struct html *html)
{
    free(html->bytes);
    *html = (struct html){0};
}

/* Gives the text capacity for `nbytes` more bytes and the null byte. */
static bool
reserve(struct html *html, size_t nbytes)
{
    size_t cap = html->cap > 0 ? html->cap : 4096;

    if (html->failed)
        return false;
    if (html->cap > html->nbytes + nbytes)
        return true;
    while (cap <= html->nbytes + nbytes)
        cap *= 2;
    char *more = realloc(html->bytes, cap);
    if (more == NULL) {
        html->failed = true;
        return false;
    }
    html->bytes = more;
    html->cap = cap;
    return true;
}

static void
put_bytes(struct html *html, const char *bytes, size_t nbytes)
{
    if (!reserve(html, nbytes))
        return;
    memcpy(html->bytes + html->nbytes, bytes, nbytes);
    html->nbytes += nbytes;
    html->bytes[html->nbytes] = '\0';
}

void
html_put(struct html *html, const char *text)
{
    put_bytes(html, text, strlen(text));
}

void
html_printf(struct html *html, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0 || !reserve(html, (size_t)n))
        return;
    va_start(arguments, format);
    vsnprintf(html->bytes + html->nbytes, (size_t)n + 1, format, arguments);
    va_end(arguments);
    html->nbytes += (size_t)n;
}

void
html_append(struct html *html, const struct html *other)
{
    html->failed |= other->failed;
    if (other->nbytes > 0)
        put_bytes(html, other->bytes, other->nbytes);
}

/* ---- text ---- */

static void
put_escaped(struct html *html, const char *text, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        switch (text[i]) {
        case '&':
            html_put(html, "&amp;");
            break;
        case '<':
            html_put(html, "&lt;");
            break;
        case '>':
            html_put(html, "&gt;");
            break;
        case '"':
            html_put(html, "&quot;");
            break;
        case '\'':
            html_put(html, "&#39;");
            break;
        default:
            put_bytes(html, &text[i], 1);
        }
}

/* Whether a character of UTF-8 begins here. */
static bool
begins(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

void
html_text(struct html *html, const char *text, size_t max)
{
    const char *shown = tool_shown(text);
    const size_t n = strlen(shown), limit = max > 0 ? max : HTML_MAX_NAME;
    size_t head = n, tail = n;

    if (n > limit) {
        head = limit / 2;
        tail = n - limit / 2;
        while (head > 0 && !begins(shown[head]))
            head--;
        while (tail < n && !begins(shown[tail]))
            tail++;
    }
    put_escaped(html, shown, head);
    if (n > limit)
        html_put(html, "&hellip;");
    put_escaped(html, shown + tail, n - tail);
}

/* ---- numbers ---- */

/* Appends to a text of HTML_NUMBER_NBYTES. */
static void
append(char *text, const char *more, size_t nbytes)
{
    const size_t at = strlen(text);

    if (at + nbytes < HTML_NUMBER_NBYTES) {
        memcpy(text + at, more, nbytes);
        text[at + nbytes] = '\0';
    }
}

static void
append_exponent(char *text, int exponent)
{
    static const char *const digits[] = {
        "&#8304;", "&#185;",  "&#178;",  "&#179;",  "&#8308;",
        "&#8309;", "&#8310;", "&#8311;", "&#8312;", "&#8313;"};
    char plain[16];

    snprintf(plain, sizeof plain, "%d", exponent);
    for (const char *at = plain; *at != '\0'; at++) {
        const char *digit = *at == '-' ? "&#8315;" : digits[*at - '0'];
        append(text, digit, strlen(digit));
    }
}

const char *
html_number_text(double number, int ndigits, char text_ret[HTML_NUMBER_NBYTES])
{
    char plain[TERP_TEXT_NUMBER_NBYTES];
    const char *at = plain;

    text_ret[0] = '\0';
    if (!isfinite(number)) {
        snprintf(text_ret, HTML_NUMBER_NBYTES, "%s",
                 isnan(number) ? "&ndash;"
                 : number > 0  ? "infinite"
                               : "&minus;infinite");
        return text_ret;
    }
    terp_text_number(number == 0 ? 0 : number, ndigits, plain); /* no -0 */
    if (*at == '-') {
        append(text_ret, "&minus;", strlen("&minus;"));
        at++;
    }
    const char *exponent = strchr(at, 'e');
    const size_t n = exponent != NULL ? (size_t)(exponent - at) : strlen(at);
    if (exponent == NULL || n != 1 || *at != '1') {
        append(text_ret, at, n);
        if (exponent != NULL)
            append(text_ret, " &times; ", strlen(" &times; "));
    }
    if (exponent != NULL) {
        append(text_ret, "10", 2);
        append_exponent(text_ret, atoi(exponent + 1));
    }
    return text_ret;
}

const char *
html_power_text(int exponent, char text_ret[HTML_NUMBER_NBYTES])
{
    snprintf(text_ret, HTML_NUMBER_NBYTES, exponent == 0 ? "1" : "10");
    if (exponent != 0 && exponent != 1)
        append_exponent(text_ret, exponent);
    return text_ret;
}

void
html_number(struct html *html, double number, int ndigits)
{
    char text[HTML_NUMBER_NBYTES];

    html_put(html, html_number_text(number, ndigits, text));
}

/* Adds <data class="..." value="...">, where the value has all digits. */
static void
begin_data(struct html *html, const char *class, double number)
{
    char all[TERP_TEXT_NUMBER_NBYTES] = "";

    if (isfinite(number))
        (void)terp_text_number(number, 17, all);
    html_printf(html, "<data class=\"%s\" value=\"%s\">", class, all);
}

void
html_data(struct html *html, const char *class, double number, int ndigits)
{
    begin_data(html, class, number);
    html_number(html, number, ndigits);
    html_put(html, "</data>");
}

void
html_fixed(struct html *html, const char *class, double number, int ndecimals)
{
    const long scale = lround(pow(10, ndecimals));

    begin_data(html, class, number);
    if (fabs(number) < MAX_FIXED) {
        const long shares = lround(fabs(number) * (double)scale);
        html_printf(html, "%s%ld.%0*ld",
                    number < 0 && shares > 0 ? "&minus;" : "", shares / scale,
                    ndecimals, shares % scale);
    } else {
        html_number(html, number, ndecimals + 2);
    }
    html_put(html, "</data>");
}

void
html_count(struct html *html, uint64_t count)
{
    char plain[32];
    const int n = snprintf(plain, sizeof plain, "%" PRIu64, count);

    for (int i = 0; i < n; i++) {
        if (i > 0 && n > 4 && (n - i) % 3 == 0)
            html_put(html, "&#8239;");
        put_bytes(html, &plain[i], 1);
    }
}

void
html_nbytes(struct html *html, uint64_t nbytes)
{
    char text[16];

    if (nbytes < 1000) {
        html_printf(html, "%" PRIu64 " bytes", nbytes);
        return;
    }
    tool_nbytes_text((double)nbytes, text);
    html_put(html, text);
}

void
html_dims(struct html *html, int rank, const hsize_t *dims)
{
    if (rank == 0)
        html_put(html, "one value");
    for (int i = 0; i < rank; i++) {
        html_put(html, i > 0 ? " &times; " : "");
        html_count(html, dims[i]);
    }
}

void
html_coordinate(struct html *html, double coordinate)
{
    const long tenths = lround(coordinate * 10);

    html_printf(html, "%s%ld", tenths < 0 ? "-" : "", labs(tenths) / 10);
    if (tenths % 10 != 0)
        html_printf(html, ".%ld", labs(tenths) % 10);
}

/* ---- images ---- */

void
html_data_uri(struct html *html, const char *type, const uint8_t *bytes,
              size_t nbytes)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789+/";

    html_printf(html, "data:%s;base64,", type);
    for (size_t i = 0; i < nbytes; i += 3) {
        const size_t n = nbytes - i < 3 ? nbytes - i : 3;
        uint32_t bits = (uint32_t)bytes[i] << 16;
        char four[4];

        if (n > 1)
            bits |= (uint32_t)bytes[i + 1] << 8;
        if (n > 2)
            bits |= bytes[i + 2];
        for (int k = 0; k < 4; k++)
            four[k] = letters[bits >> (18 - 6 * k) & 63];
        memset(four + n + 1, '=', 3 - n);
        put_bytes(html, four, 4);
    }
}
