/* mapped_memory.c: keeps the mapped ranges in a skip list, in the order of their addresses. One
 * operation takes O(log n) steps for n ranges, and each range is removed once. The memory is
 * proportional to the largest number of ranges.
 *
 *     ranges     [0x1000, 0x5000)  [0x5000, 0x6000)  [0x7000, 0x9000)
 *     mapping           A                 B                 A          an unmap split A
 *     row           stack 1           stack 2           stack 1
 *
 * How much each stack had mapped at the peak: `peak_number` counts the peaks so far. When the
 * number of mapped bytes reaches a new maximum, only this counter changes. Before the bytes of a
 * row change, the row stores them as its bytes at the peak, unless it has already done so for the
 * current peak. */
#include "model/pass/mapped_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/keyed_hash.h"
#include "model/pass/mapped_residency.h"
#include "table/array.h"
#include "table/index_map.h"

enum {
    LEVELS = 16,    /* levels of the skip list, enough for 4^16 ranges */
    LEVEL_BITS = 2, /* one range in 4 of a level is also in the next higher level */
};

struct mapping {
    uint32_t row, stream, recorded_stack;
    uint64_t time_ns;
    size_t n_ranges;
};
struct range { /* [low, high) */
    uint64_t low, high;
    struct mapping *mapping;
    size_t n_levels;
    struct range *next[];
};
struct row {
    struct ag_stack_sum sum;
    struct ag_live_sum live;
    struct ag_mapped_sum mapped;
    uint64_t peak_number; /* the peak to which sum.peak_bytes and peak_blocks belong */
};
struct ag_mapped_memory {
    struct range *first[LEVELS];
    struct row *rows;
    size_t n_rows;
    struct ag_index_map by_key; /* stack | via << 32 -> row */
    uint64_t in_use_bytes, peak_bytes, peak_number, peak_time_ns;
    /* number of inserted ranges; its hash decides in which levels the next range is */
    uint64_t n_inserted;
};
/* A position in the skip list, for an address: before the first range that begins at the address or
 * after it. */
struct place {
    /* by level: the pointer to the first range at or after the address */
    struct range **links[LEVELS];
    struct range *before; /* the last range that begins earlier; NULL: none */
};

struct ag_mapped_memory *ag_mapped_memory_new(void) {
    return calloc(1, sizeof(struct ag_mapped_memory));
}

struct ag_mapped_memory *ag_mapped_memory_free(struct ag_mapped_memory *memory) {
    if (!memory) {
        return NULL;
    }
    for (struct range *range = memory->first[0]; range;) {
        struct range *next = range->next[0];
        if (--range->mapping->n_ranges == 0) {
            free(range->mapping);
        }
        free(range);
        range = next;
    }
    free(memory->rows);
    ag_index_map_done(&memory->by_key);
    free(memory);
    return NULL;
}

/* ---- rows ---- */

static void keep_peak(const struct ag_mapped_memory *memory, struct row *row) {
    if (row->peak_number != memory->peak_number) {
        row->sum.peak_blocks = row->live.blocks;
        row->sum.peak_bytes = row->live.bytes;
        row->peak_number = memory->peak_number;
    }
}

static void note_peak(struct ag_mapped_memory *memory, uint64_t time_ns) {
    if (memory->in_use_bytes >= memory->peak_bytes) {
        memory->peak_bytes = memory->in_use_bytes;
        memory->peak_time_ns = time_ns;
        memory->peak_number++;
    }
}

static void drop_bytes(struct ag_mapped_memory *memory, const struct mapping *mapping,
                       uint64_t bytes) {
    struct row *row = &memory->rows[mapping->row];
    keep_peak(memory, row);
    row->live.bytes -= bytes;
    row->sum.freed_bytes += bytes;
    memory->in_use_bytes -= bytes;
}

/* Returns the number of the row, or -ENOMEM. */
static int64_t row_of(struct ag_mapped_memory *memory, uint32_t stack, uint32_t via) {
    uint32_t at = 0;
    const int r = ag_index_map_number(&memory->by_key, stack | (uint64_t)via << 32, &at);
    const struct row row = {.sum = {.stack = stack, .via = via},
                            .peak_number = memory->peak_number};
    if (r < 0 || (r > 0 && AG_ARRAY_ADD(memory->rows, memory->n_rows, row) < 0)) {
        return -ENOMEM;
    }
    return at;
}

/* ---- ranges ---- */

static struct place find_place(struct ag_mapped_memory *memory, uint64_t low) {
    struct place place = {.before = NULL};
    struct range **next = memory->first;
    for (size_t level = LEVELS; level-- > 0;) {
        while (next[level] && next[level]->low < low) {
            place.before = next[level];
            next = place.before->next;
        }
        place.links[level] = &next[level];
    }
    return place;
}

/* Inserts a range of MAPPING at PLACE. Returns 0 or -ENOMEM. */
static int insert_range(struct ag_mapped_memory *memory, const struct place *place, uint64_t low,
                        uint64_t high, struct mapping *mapping) {
    uint64_t bits = ag_keyed_hash(memory->n_inserted++);
    size_t n_levels = 1;
    for (; n_levels < LEVELS && (bits & ((1 << LEVEL_BITS) - 1)) == 0; bits >>= LEVEL_BITS) {
        n_levels++;
    }
    struct range *range = malloc(sizeof(*range) + n_levels * sizeof(range->next[0]));
    if (!range) {
        return -ENOMEM;
    }
    range->low = low;
    range->high = high;
    range->mapping = mapping;
    range->n_levels = n_levels;
    for (size_t level = 0; level < n_levels; level++) {
        range->next[level] = *place->links[level];
        *place->links[level] = range;
    }
    mapping->n_ranges++;
    return 0;
}

/* Removes the range that follows PLACE. */
static void remove_range(struct ag_mapped_memory *memory, const struct place *place) {
    struct range *range = *place->links[0];
    struct mapping *mapping = range->mapping;
    drop_bytes(memory, mapping, range->high - range->low);
    for (size_t level = 0; level < range->n_levels; level++) {
        *place->links[level] = range->next[level];
    }
    free(range);
    if (--mapping->n_ranges == 0) {
        struct row *row = &memory->rows[mapping->row];
        row->live.blocks--;
        row->sum.freed_blocks++;
        free(mapping);
    }
}

/* Returns the first range that ends after LOW; NULL: none. PLACE: the position for LOW. */
static struct range *range_at(const struct place *place, uint64_t low) {
    return place->before && place->before->high > low ? place->before : *place->links[0];
}

/* Removes the bytes [low, high) from all ranges. PLACE: the position for LOW, which is still valid
 * when the function returns. Sets *ret_via as ag_mapped_memory_unmap does. */
static int cut_ranges(struct ag_mapped_memory *memory, const struct place *place, uint64_t low,
                      uint64_t high, uint32_t *ret_via) {
    struct range *before = place->before;
    struct range *range = range_at(place, low);
    *ret_via = UINT32_MAX;
    if (range && range->low < high) {
        *ret_via = memory->rows[range->mapping->row].sum.via;
    }
    if (before && before->high > low) {
        const uint64_t end = before->high;
        if (end > high && insert_range(memory, place, high, end, before->mapping) < 0) {
            return -ENOMEM;
        }
        before->high = low;
        drop_bytes(memory, before->mapping, (end < high ? end : high) - low);
    }
    while ((range = *place->links[0]) != NULL && range->high <= high) {
        remove_range(memory, place);
    }
    if (range && range->low < high) {
        drop_bytes(memory, range->mapping, high - range->low);
        range->low = high;
    }
    return 0;
}

/* ---- operations ---- */

static bool is_range(uint64_t address, uint64_t bytes) {
    return bytes > 0 && address + bytes > address;
}

int ag_mapped_memory_unmap(struct ag_mapped_memory *memory, uint64_t call_time_ns, uint64_t address,
                           uint64_t bytes, uint32_t stream, uint32_t *ret_via) {
    *ret_via = UINT32_MAX;
    int r = 0;
    const uint64_t high = address + bytes;
    for (uint64_t low = address, end; is_range(address, bytes) && low < high && r == 0; low = end) {
        const struct place place = find_place(memory, low);
        const struct range *range = range_at(&place, low);
        end = call_time_ns != UINT64_MAX && range && range->high < high ? range->high : high;
        const bool is_later =
            range && range->mapping->time_ns > call_time_ns && range->mapping->stream != stream;
        uint32_t via = UINT32_MAX;
        r = is_later ? 0 : cut_ranges(memory, &place, low, end, &via);
        if (*ret_via == UINT32_MAX) {
            *ret_via = via;
        }
    }
    return r;
}

int ag_mapped_memory_map(struct ag_mapped_memory *memory, uint64_t time_ns, uint64_t address,
                         uint64_t bytes, const struct ag_mapping_origin *origin) {
    if (!is_range(address, bytes)) {
        return 0;
    }
    const struct place place = find_place(memory, address);
    uint32_t unused;
    const int r = cut_ranges(memory, &place, address, address + bytes, &unused);
    const int64_t at = row_of(memory, origin->stack, origin->via);
    struct mapping *mapping = r < 0 || at < 0 ? NULL : calloc(1, sizeof(*mapping));
    if (!mapping || insert_range(memory, &place, address, address + bytes, mapping) < 0) {
        free(mapping);
        return -ENOMEM;
    }
    mapping->row = (uint32_t)at;
    mapping->stream = origin->stream;
    mapping->recorded_stack = origin->recorded_stack;
    mapping->time_ns = time_ns;
    struct row *row = &memory->rows[at];
    keep_peak(memory, row);
    row->live.blocks++;
    row->live.bytes += bytes;
    row->sum.allocated_blocks++;
    row->sum.allocated_bytes += bytes;
    memory->in_use_bytes += bytes;
    note_peak(memory, time_ns);
    return 0;
}

void ag_mapped_memory_restart(struct ag_mapped_memory *memory, uint64_t time_ns) {
    for (size_t i = 0; i < memory->n_rows; i++) {
        struct ag_stack_sum *sum = &memory->rows[i].sum;
        sum->allocated_blocks = sum->allocated_bytes = 0;
        sum->freed_blocks = sum->freed_bytes = 0;
    }
    memory->peak_bytes = 0;
    note_peak(memory, time_ns);
}

void ag_mapped_memory_ranges(const struct ag_mapped_memory *memory, ag_mapped_range_visit *visit,
                             void *context) {
    for (const struct range *range = memory->first[0]; range; range = range->next[0]) {
        visit(context, range->low, range->high, range->mapping->recorded_stack,
              memory->rows[range->mapping->row].sum.via);
    }
}

void ag_mapped_memory_note_half_way(struct ag_mapped_memory *memory) {
    for (size_t i = 0; i < memory->n_rows; i++) {
        memory->rows[i].mapped.half_way_bytes = memory->rows[i].live.bytes;
    }
}

void ag_mapped_memory_note_resident(struct ag_mapped_memory *memory,
                                    const struct ag_resident_look *look) {
    struct ag_mapped_residency residency = ag_mapped_residency_of(look);
    for (const struct range *range = memory->first[0]; range; range = range->next[0]) {
        struct ag_mapped_sum *mapped = &memory->rows[range->mapping->row].mapped;
        const uint64_t bytes = ag_mapped_residency_in(&residency, range->low, range->high);
        mapped->resident_bytes += bytes;
        mapped->untouched_bytes += range->high - range->low - bytes;
    }
}

size_t ag_mapped_memory_count(const struct ag_mapped_memory *memory) {
    return memory->n_rows;
}

int ag_mapped_memory_sums(const struct ag_mapped_memory *memory, struct ag_stack_sum **ret_stacks,
                          struct ag_live_sum **ret_live, struct ag_mapped_sum **ret_mapped,
                          struct ag_summary *summary) {
    struct ag_stack_sum *stacks = calloc(memory->n_rows + 1, sizeof(*stacks));
    struct ag_live_sum *live = calloc(memory->n_rows + 1, sizeof(*live));
    struct ag_mapped_sum *mapped = calloc(memory->n_rows + 1, sizeof(*mapped));
    if (!stacks || !live || !mapped) {
        free(stacks);
        free(live);
        free(mapped);
        return -ENOMEM;
    }
    summary->allocated_blocks = summary->allocated_bytes = 0;
    summary->freed_blocks = summary->freed_bytes = 0;
    summary->in_use_blocks = summary->in_use_bytes = 0;
    summary->peak_blocks = summary->peak_bytes = 0;
    for (size_t i = 0; i < memory->n_rows; i++) {
        struct row row = memory->rows[i];
        keep_peak(memory, &row);
        stacks[i] = row.sum;
        live[i] = row.live;
        mapped[i] = row.mapped;
        summary->allocated_blocks += row.sum.allocated_blocks;
        summary->allocated_bytes += row.sum.allocated_bytes;
        summary->freed_blocks += row.sum.freed_blocks;
        summary->freed_bytes += row.sum.freed_bytes;
        summary->in_use_blocks += row.live.blocks;
        summary->in_use_bytes += row.live.bytes;
        summary->peak_blocks += row.sum.peak_blocks;
        summary->peak_bytes += row.sum.peak_bytes;
    }
    summary->peak_low_bytes = summary->peak_high_bytes = summary->peak_bytes;
    summary->peak_time_ns = memory->peak_time_ns;
    summary->temporary_blocks = summary->order_repairs = 0;
    summary->ghost_frees = summary->inherited_frees = 0;
    *ret_stacks = stacks;
    *ret_live = live;
    *ret_mapped = mapped;
    return 0;
}
