/* Keeps the blocks that HDF5 allocates in a list. */
#include "tools/common/heap.h"

#include <stddef.h>
#include <stdlib.h>

#include "codec/api/budget.h"
#include "tools/common/h5file.h"

struct tool_heap_block {
    struct tool_heap_block *next;
    max_align_t bytes[];
};

static void *
allocate(size_t nbytes, void *context)
{
    struct tool_heap *heap = context;
    const uint64_t all_nbytes = (uint64_t)nbytes + sizeof *heap->first;

    if (terp_budget_check(heap->nbytes + all_nbytes) != TERP_OK)
        return NULL;
    struct tool_heap_block *block = malloc(all_nbytes);
    if (block == NULL)
        return NULL;
    heap->nbytes += all_nbytes;
    block->next = heap->first;
    heap->first = block;
    return block->bytes;
}

/* Blocks are freed together. */
static void
keep(void *at, void *context)
{
    (void)at;
    (void)context;
}

void
tool_heap_open(struct tool_heap *heap)
{
    *heap = (struct tool_heap){.dxpl = H5Pcreate(H5P_DATASET_XFER)};
    if (heap->dxpl >= 0 &&
        H5Pset_vlen_mem_manager(heap->dxpl, allocate, heap, keep, heap) < 0) {
        H5Pclose(heap->dxpl);
        heap->dxpl = -1;
    }
}

void
tool_heap_clear(struct tool_heap *heap)
{
    while (heap->first != NULL) {
        struct tool_heap_block *block = heap->first;
        heap->first = block->next;
        free(block);
    }
    heap->nbytes = 0;
}

void
tool_heap_close(struct tool_heap *heap)
{
    tool_heap_clear(heap);
    tool_close(heap->dxpl);
}
