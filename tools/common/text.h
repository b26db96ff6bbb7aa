/* Names and reasons as they are shown: a file chooses them, and a terminal
 * obeys some. */
#pragma once

/* The text with what is no printable UTF-8 written as in C: "\n", "\x1b", and
 * "\\" for a backslash. Escaped are control characters, bytes that are no
 * UTF-8, and the characters that end a line or turn its direction. A text that
 * needs no escapes is returned itself; another one stays valid until eight
 * calls later. Only for the thread that prints. */
const char *
tool_shown(const char *text);
