/* Makes names and reasons safe to print: files contain arbitrary bytes, and
 * terminals obey some of them. */
#pragma once

/* The text with everything but printable UTF-8 escaped as in C: "
 * ", "\x1b", and "\\" for a backslash. Escapes control characters, bytes
 * outside UTF-8, and characters that end a line or change its direction.
 * Returns `text` itself if it needs no escapes; an escaped text stays valid for
 * the next seven calls. Only for the thread that prints. */
const char *
tool_shown(const char *text);
