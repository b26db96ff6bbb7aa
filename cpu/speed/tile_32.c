/* Tiles of integers of 32 bits. */
#define WORD_NBITS 32
#include "cpu/speed/tile_impl.h"
