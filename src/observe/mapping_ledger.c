/* mapping_ledger.c: for `observe --maps`: follows the system calls that map and unmap memory, to
 * find out which stack mapped each range. The ranges are disjoint; a range is split where a part of
 * it is unmapped or mapped again.
 *
 * The kernel writes the calls to one buffer per CPU, and the buffers are read one after the other.
 * If a thread moves to another CPU, its munmap may be read before its mmap. So calls are queued
 * until all buffers have been read up to a later time, and are then applied in the order of their
 * times.
 *
 * brk returns only the end of the heap: the memory between two results was mapped or unmapped. Heap
 * memory that the process had before the observation has no known stack. */
#include "mapping_ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "table/array.h"

enum { PAGE_BYTES = 4096, MOST_ERRNO = 4095 };

static uint64_t to_page(uint64_t bytes) {
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Returns the index of the first range that ends after the address. */
static size_t mappings_find(const struct ag_mapping_ledger *ledger, uint64_t address) {
    return AG_SORTED_UNTIL(ledger->items, ledger->n, high, address);
}

static int mappings_insert(struct ag_mapping_ledger *ledger, size_t at,
                           const struct ag_ledger_range *range) {
    if (AG_ARRAY_RESERVE(ledger->items, ledger->capacity, ledger->n + 1) < 0) {
        return -ENOMEM;
    }
    memmove(ledger->items + at + 1, ledger->items + at, (ledger->n - at) * sizeof *range);
    ledger->items[at] = *range;
    ledger->n++;
    return 0;
}

int ag_mapping_ledger_unmap(struct ag_mapping_ledger *ledger, uint64_t low, uint64_t high) {
    size_t at = mappings_find(ledger, low);
    while (at < ledger->n && ledger->items[at].low < high) {
        struct ag_ledger_range *range = &ledger->items[at];
        if (range->low < low && range->high > high) { /* [low, high) is in the middle of the
                                                       * range */
            const struct ag_ledger_range rest = {high, range->high, range->node};
            range->high = low;
            return mappings_insert(ledger, at + 1, &rest);
        }
        if (range->low < low) {
            range->high = low;
            at++;
        } else if (range->high > high) {
            range->low = high;
            return 0;
        } else {
            memmove(range, range + 1, (ledger->n - at - 1) * sizeof *range);
            ledger->n--;
        }
    }
    return 0;
}

int ag_mapping_ledger_map(struct ag_mapping_ledger *ledger, uint64_t low, uint64_t high,
                          uint32_t node) {
    const int r = ag_mapping_ledger_unmap(ledger, low, high);
    const struct ag_ledger_range range = {low, high, node};
    return r < 0 || low >= high ? r : mappings_insert(ledger, mappings_find(ledger, low), &range);
}

static int change_heap(struct ag_mapping_ledger *ledger, uint64_t end, uint32_t node) {
    const uint64_t before = ledger->end_of_heap;
    ledger->end_of_heap = end;
    if (before == 0 || before == end) {
        return 0;
    }
    return end > before ? ag_mapping_ledger_map(ledger, to_page(before), to_page(end), node)
                        : ag_mapping_ledger_unmap(ledger, to_page(end), to_page(before));
}

static int mappings_apply(struct ag_mapping_ledger *ledger, const struct ag_ledger_call *call) {
    const uint64_t *arguments = call->arguments, result = call->result;
    if (result > UINT64_MAX - MOST_ERRNO) {
        return 0; /* the call failed */
    }
    switch (call->call) {
    case AG_CALL_MMAP:
        return ag_mapping_ledger_map(ledger, result, result + to_page(arguments[1]), call->node);
    case AG_CALL_MUNMAP:
        return ag_mapping_ledger_unmap(ledger, arguments[0], arguments[0] + to_page(arguments[1]));
    case AG_CALL_BRK:
        return change_heap(ledger, result, call->node);
    case AG_CALL_MREMAP: { /* old address, old bytes, new bytes */
        const int r =
            ag_mapping_ledger_unmap(ledger, arguments[0], arguments[0] + to_page(arguments[1]));
        return r < 0 ? r
                     : ag_mapping_ledger_map(ledger, result, result + to_page(arguments[2]),
                                             call->node);
    }
    }
    return -EINVAL;
}

/* ---- the order of calls ------------------------------------------------------------- */

int ag_mapping_ledger_notify(struct ag_mapping_ledger *ledger, const struct ag_ledger_call *call) {
    return AG_ARRAY_ADD(ledger->pending, ledger->n_pending, *call);
}

static int by_time(const void *a, const void *b) {
    const struct ag_ledger_call *first = a, *second = b;
    return first->time_ns < second->time_ns ? -1 : first->time_ns > second->time_ns;
}

int ag_mapping_ledger_settle(struct ag_mapping_ledger *ledger, uint64_t until_ns) {
    size_t n = 0;
    int r = 0;
    if (ledger->n_pending == 0) {
        return 0;
    }
    qsort(ledger->pending, ledger->n_pending, sizeof ledger->pending[0], by_time);
    for (; n < ledger->n_pending && ledger->pending[n].time_ns < until_ns && r == 0; n++) {
        r = mappings_apply(ledger, &ledger->pending[n]);
    }
    ledger->n_pending -= n;
    memmove(ledger->pending, ledger->pending + n, ledger->n_pending * sizeof ledger->pending[0]);
    return r;
}

void ag_mapping_ledger_done(struct ag_mapping_ledger *ledger) {
    free(ledger->items);
    free(ledger->pending);
    *ledger = (struct ag_mapping_ledger){0};
}
