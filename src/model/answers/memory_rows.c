/* memory_rows.c: attributes the memory of a process to malloc, to the heaps of runtimes and to
 * mapped memory, for the heaps view.
 *
 * 1. A row is a runtime with all its heaps, or a heap that belongs to no runtime. Heaps whose
 * blocks may contain other heaps ("backing" heaps: memory that the program mapped itself, stacks)
 * have rows of their own.
 *
 * 2. No byte is counted twice. A runtime (virtual machine) that allocates its memory with malloc
 * reports the number of these bytes (of_malloc_bytes). The row of malloc calls them lent_bytes, and
 * the total counts them only in the row of malloc. If the blocks of the runtime were also recorded
 * as malloc blocks, they are part of malloc's bytes in use; then they are not added to
 * lent_bytes. */
#include "model/answers/memory_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/metric.h"
#include "table/index_map.h"
#include "table/text_store.h"

struct gathering {
    struct ag_memory_row *rows;
    size_t count;
    size_t lender;       /* the row of malloc; SIZE_MAX: there is none */
    uint64_t lent_bytes; /* sum of the bytes that all other rows allocated with malloc */
    struct ag_text_store names;
    struct ag_index_map by_name; /* text -> row */
};

static const char *owner_of(const struct ag_heap_row *heap) {
    const bool is_a_runtimes = !heap->is_backing && heap->runtime && heap->runtime[0];
    return is_a_runtimes ? heap->runtime : heap->name;
}

/* Finds or adds the row of a heap. NULL: no memory. */
static struct ag_memory_row *row_of(struct gathering *all, const struct ag_heap_row *heap) {
    const char *name = owner_of(heap);
    const uint32_t text = ag_text_id(&all->names, name, strlen(name));
    uint32_t at;
    const int r =
        text == 0 && name[0] != '\0' ? -ENOMEM : ag_index_map_number(&all->by_name, text, &at);
    if (r < 0) {
        return NULL;
    }
    if (r > 0) {
        all->rows[all->count++] =
            (struct ag_memory_row){.name = name, .has_committed = true, .has_free = true};
    }
    if (!heap->is_backing && strcmp(heap->name, "malloc") == 0) {
        all->lender = at;
    }
    return &all->rows[at];
}

/* The memory of a heap as its runtime reported it. If the runtime reported only that it allocates
 * each block with malloc, the size of the heap is the sum of its blocks. */
static struct ag_heap_memory sizes_of(const struct ag_heap_row *heap) {
    struct ag_heap_memory memory = heap->memory;
    if (!(memory.known & AG_MEMORY_SIZES) && memory.known & AG_MEMORY_IN_MALLOC) {
        memory.known |= AG_MEMORY_SIZES | AG_MEMORY_FREE;
        memory.reserved_bytes = memory.committed_bytes = memory.of_malloc_bytes =
            heap->sum.in_use_bytes;
        memory.free_bytes = 0;
    }
    return memory;
}

static int add_heap(struct gathering *all, const struct ag_heap_row *heap) {
    const struct ag_heap_memory memory = sizes_of(heap);
    struct ag_memory_row *row = row_of(all, heap);
    if (!row) {
        return -ENOMEM;
    }
    if (!heap->is_backing) {
        ag_metrics_add(&row->metrics, &heap->metrics);
    }
    if (memory.known & AG_MEMORY_SIZES) {
        row->has_reserved = true;
        row->reserved_bytes += memory.reserved_bytes;
        row->committed_bytes += memory.committed_bytes;
        row->of_malloc_bytes += memory.of_malloc_bytes;
        row->free_bytes += memory.free_bytes;
        row->has_free = row->has_free && memory.known & AG_MEMORY_FREE;
        row->time_ns = memory.time_ns > row->time_ns ? memory.time_ns : row->time_ns;
        all->lent_bytes += memory.known & AG_MEMORY_RECORDED_TWICE ? 0 : memory.of_malloc_bytes;
    } else if (heap->sum.mapped_bytes > 0) {
        row->has_reserved = true;
        row->reserved_bytes += heap->sum.mapped_bytes;
        row->has_committed = false;
    }
    return 0;
}

/* Completes the rows after all heaps are added. A runtime with several heaps may report one number
 * for all of them, so a row has sizes if at least one of its heaps has sizes. */
static void settle(struct gathering *all) {
    for (size_t i = 0; i < all->count; i++) {
        struct ag_memory_row *row = &all->rows[i];
        row->has_committed = row->has_committed && row->has_reserved;
        row->has_free = row->has_free && row->has_committed;
        row->lent_bytes = i == all->lender ? all->lent_bytes : 0;
        const uint64_t used = row->metrics.in_use_bytes + row->lent_bytes;
        row->has_fragmentation = row->has_committed && row->committed_bytes >= used;
        row->fragmentation_bytes = row->has_fragmentation ? row->committed_bytes - used : 0;
    }
}

static int by_size(const void *a, const void *b) {
    const struct ag_memory_row *left = a, *right = b;
    if (left->reserved_bytes != right->reserved_bytes) {
        return left->reserved_bytes < right->reserved_bytes ? 1 : -1;
    }
    return strcmp(left->name, right->name);
}

static struct ag_memory_total total_of(const struct gathering *all) {
    struct ag_memory_total total = {.reserved_bytes = 0};
    for (size_t i = 0; i < all->count; i++) {
        const struct ag_memory_row *row = &all->rows[i];
        total.reserved_bytes += row->reserved_bytes - row->of_malloc_bytes;
        total.committed_bytes +=
            row->has_committed ? row->committed_bytes - row->of_malloc_bytes : 0;
        total.fragmentation_bytes += row->fragmentation_bytes;
        ag_metrics_add(&total.metrics, &row->metrics);
    }
    return total;
}

int ag_memory_rows_make(const struct ag_heap_row *heaps, size_t n_heaps,
                        struct ag_memory_row **ret_rows, size_t *ret_count,
                        struct ag_memory_total *ret_total) {
    struct gathering all = {.rows = calloc(n_heaps + 1, sizeof(*all.rows)), .lender = SIZE_MAX};
    bool is_known = false;
    int r = all.rows ? 0 : -ENOMEM;
    for (size_t i = 0; i < n_heaps && r == 0; i++) {
        const struct ag_heap_row *heap = &heaps[i];
        if (heap->memory.known || heap->sum.mapped_bytes > 0 || heap->sum.in_use_bytes > 0) {
            is_known = is_known || heap->memory.known || heap->sum.mapped_bytes > 0;
            r = add_heap(&all, heap);
        }
    }
    ag_text_store_done(&all.names);
    ag_index_map_done(&all.by_name);
    if (r < 0) {
        free(all.rows);
        return r;
    }
    settle(&all);
    *ret_total = total_of(&all);
    qsort(all.rows, all.count, sizeof(*all.rows), by_size);
    *ret_rows = all.rows;
    *ret_count = is_known ? all.count : 0;
    return 0;
}

void ag_heap_memory_add(struct ag_heap_memory *sum, const struct ag_heap_memory *more) {
    sum->known |= more->known;
    sum->time_ns = more->time_ns > sum->time_ns ? more->time_ns : sum->time_ns;
    sum->reserved_bytes += more->reserved_bytes;
    sum->committed_bytes += more->committed_bytes;
    sum->free_bytes += more->free_bytes;
    sum->of_malloc_bytes += more->of_malloc_bytes;
}
