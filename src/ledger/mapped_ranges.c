/* mapped_ranges.c: reduces the log of maps and unmaps to the mapped ranges, by one sweep over the
 * operations in the order of their first addresses. The newest operation that covers an address
 * decides whether the address is mapped, and for which heap; this operation is on top of a binary
 * heap. An operation whose range has ended is removed from the heap when it gets to the top. */
#include "ledger/mapped_ranges.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 1024 };

struct edge { /* the address at which an operation begins */
    uint64_t address;
    uint32_t operation;
};

struct sweep {
    const struct ag_mapped_range *log;
    uint32_t *newest; /* binary heap of operations that have begun, the newest on top */
    size_t count;
};

void ag_mapped_ranges_done(struct ag_mapped_ranges *ranges) {
    free(ranges->log);
    *ranges = (struct ag_mapped_ranges){0};
}

static int by_low(const void *a, const void *b) {
    const struct edge *left = a, *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

static void sweep_push(struct sweep *sweep, uint32_t operation) {
    size_t at = sweep->count++;
    for (; at > 0 && sweep->newest[(at - 1) / 2] < operation; at = (at - 1) / 2) {
        sweep->newest[at] = sweep->newest[(at - 1) / 2];
    }
    sweep->newest[at] = operation;
}

static void pop(struct sweep *sweep) {
    const uint32_t last = sweep->newest[--sweep->count];
    size_t at = 0;
    for (size_t child = 1; child < sweep->count; child = 2 * at + 1) {
        child += child + 1 < sweep->count && sweep->newest[child + 1] > sweep->newest[child];
        if (sweep->newest[child] <= last) {
            break;
        }
        sweep->newest[at] = sweep->newest[child];
        at = child;
    }
    sweep->newest[at] = last;
}

/* Returns the newest operation that covers ADDRESS. Removes from the top the operations that end at
 * or before ADDRESS. */
static const struct ag_mapped_range *sweep_owner(struct sweep *sweep, uint64_t address) {
    while (sweep->count > 0 && sweep->log[sweep->newest[0]].high <= address) {
        pop(sweep);
    }
    return sweep->count > 0 ? &sweep->log[sweep->newest[0]] : NULL;
}

static void emit(struct ag_mapped_range *result, size_t *count, uint32_t heap, uint64_t low,
                 uint64_t high) {
    struct ag_mapped_range *last = *count > 0 ? &result[*count - 1] : NULL;
    if (last && last->high == low && last->heap == heap) {
        last->high = high;
    } else {
        result[(*count)++] = (struct ag_mapped_range){.low = low, .high = high, .heap = heap};
    }
}

/* Visits the first addresses of the operations in rising order. If a newer operation ends between
 * two first addresses, an older operation decides from there on. */
static size_t sweep_ranges(struct sweep *sweep, const struct edge *begins, size_t n,
                           struct ag_mapped_range *result) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        sweep_push(sweep, begins[i].operation);
        uint64_t at = begins[i].address;
        const uint64_t stop = i + 1 < n ? begins[i + 1].address : UINT64_MAX;
        const struct ag_mapped_range *range;
        while (at < stop && (range = sweep_owner(sweep, at)) != NULL) {
            const uint64_t end = range->high < stop ? range->high : stop;
            if (range->heap != AG_HEAP_UNMAPPED) {
                emit(result, &count, range->heap, at, end);
            }
            at = end;
        }
    }
    return count;
}

int ag_mapped_ranges_settle(struct ag_mapped_ranges *ranges) {
    const size_t n = ranges->count;
    if (n == 0) {
        return 0;
    }
    struct edge *begins = malloc(n * sizeof(*begins));
    struct sweep sweep = {.log = ranges->log, .newest = malloc(n * sizeof(*sweep.newest))};
    /* each first address and each end of an operation begins at most one range */
    struct ag_mapped_range *result = malloc(2 * n * sizeof(*result));
    if (begins && sweep.newest && result) {
        for (size_t i = 0; i < n; i++) {
            begins[i] = (struct edge){.address = ranges->log[i].low, .operation = (uint32_t)i};
        }
        qsort(begins, n, sizeof(*begins), by_low);
        const size_t count = sweep_ranges(&sweep, begins, n, result);
        free(ranges->log);
        *ranges = (struct ag_mapped_ranges){.log = result, .count = count, .capacity = 2 * n};
        result = NULL;
    }
    const bool is_done = result == NULL && begins && sweep.newest;
    free(begins);
    free(sweep.newest);
    free(result);
    return is_done ? 0 : -ENOMEM;
}

int ag_mapped_ranges_set(struct ag_mapped_ranges *ranges, uint32_t heap, uint64_t address,
                         uint64_t bytes) {
    if (bytes == 0 || address + bytes < address) {
        return 0;
    }
    if (ranges->count == ranges->capacity) {
        const int r = ag_mapped_ranges_settle(ranges);
        const size_t capacity =
            ranges->count * 2 > FIRST_CAPACITY ? ranges->count * 2 : FIRST_CAPACITY;
        struct ag_mapped_range *log =
            r == 0 && capacity < UINT32_MAX ? realloc(ranges->log, capacity * sizeof(*log)) : NULL;
        if (!log) {
            return -ENOMEM;
        }
        ranges->log = log;
        ranges->capacity = capacity;
    }
    ranges->log[ranges->count++] =
        (struct ag_mapped_range){.low = address, .high = address + bytes, .heap = heap};
    return 0;
}
