/* Tiles of integers of 64 bits. */
#define WORD_NBITS 64
#include "cpu/speed/tile_impl.h"
