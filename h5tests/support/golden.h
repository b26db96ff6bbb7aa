/* Golden streams: small files, kept for ever, that every later version must
 * decode to the same bytes. `list.txt` beside them has a line a stream:
 *
 *   <file name> <bytes of the stream> <bytes decoded> <XXH3-64 decoded>
 *
 * Files of a released version are never changed or removed. */
#pragma once

#define TERP_GOLDEN_LIST "list.txt"
#define TERP_GOLDEN_NAME_CAP 128
