/* resident_parts.c: divides the resident memory of a process at one moment into classes.
 *
 * 1. Input. The trace has a look, which is one reading of the resident memory (records
 *    resident_look and resident_mapping): the mappings, and which pages of anonymous memory were
 *    resident. The events say which blocks were in use at this moment, and which memory the program
 *    had mapped itself.
 *
 * 2. Pages. On each resident page, the bytes of blocks are `live` (or managed_in_use). What the
 *    allocator adds to a block is `rounding`: the bytes up to the next block, or, if these are more
 *    than 16 plus a quarter of the block's size, the bytes that glibc would add. (No common
 *    allocator has size classes that are further apart.) The rest of a page with blocks is
 *    `pinned_free`, and is charged to the blocks on this page in proportion to their bytes; if most
 *    bytes of the blocks are managed_in_use, the rest is managed_free. A page without a block is
 *    `returnable` if it is in a heap of malloc: the allocator could give it back to the kernel, as
 *    malloc_trim does. Thread storage, which the look lists, has a class of its own, also if it is
 *    in a block.
 *
 * 3. Heaps. No allocator is asked where its memory is. A mapping is memory of malloc if it is
 *    [heap] or an arena of glibc (the writer marks these), or if it contains a block, or if another
 *    mapping that the same stack or library made contains a block. A block that contains other
 *    blocks is memory that a runtime took for its heap: the part that is in no inner block is
 *    managed_free.
 *
 * 4. Other mappings are divided by what the kernel says about them (resident_classes.h). If no
 *    recorded call mapped an anonymous mapping, it is the agent's if it has the flag MAP_NORESERVE,
 *    with which the agent maps its memory. Otherwise it is unknown. */
#include "model/answers/resident_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/page_runs.h"
#include "model/answers/program_mappings.h"
#include "model/pass/mapping_pass.h"
#include "model/profile_state.h"
#include "table/array.h"

struct block { /* [low, high) */
    uint64_t low, high;
    uint32_t row; /* of the profile; UINT32_MAX: none */
    bool is_managed;
    bool is_thread_storage; /* dynamic TLS of a thread, or its table of TLS (dtv) */
};
struct range { /* memory that the program mapped, or a block that contains others: [low, high) */
    uint64_t low, high;
    uint32_t row; /* of the profile of mappings */
};
struct share { /* of a row */
    uint64_t live_bytes, live_blocks;
    /* pinned_bytes: free bytes that are charged to the row's blocks; pinning_blocks, pinning_bytes:
     * the row's blocks on pages with free bytes */
    uint64_t pinned_bytes, pinning_blocks, pinning_bytes;
    uint32_t last_pinning; /* 1 + number of the last block that was counted in pinning_blocks */
    /* of a row of mappings: memory that the row's stack mapped contains a block of malloc */
    bool has_blocks;
};
struct division {
    struct ag_profile *profile, *mappings;
    const struct ag_model_look *look;
    struct ag_resident_parts *parts;
    uint64_t moment_ns;              /* since the start of the recording */
    struct ag_index_map row_of_key;  /* stack | via << 32 -> row of the profile */
    struct ag_index_map mapping_key; /* the same, for the profile of mappings */
    struct block *blocks;            /* sorted, disjoint */
    struct range *containers;        /* sorted, disjoint: blocks that contain blocks */
    struct range *ranges;            /* sorted, disjoint: memory that the program mapped */
    size_t n_blocks, n_containers, n_ranges;
    struct share *shares; /* by row of the profile */
    /* by row of the profile of mappings; used are live_bytes, live_blocks (the number of ranges)
     * and has_blocks */
    struct share *range_shares;
    /* malloc_trim gives back no page of the current mapping at or above this address */
    uint64_t trim_end;
    /* indexes of the first block, container and range that end after the start of the current
     * page */
    size_t next_block, next_container, next_range;
    int error;
};

/* ---- blocks and mappings at the moment ---- */

static int index_rows(const struct ag_profile *profile, struct ag_index_map *map) {
    int r = 0;
    for (size_t i = 0; i < profile->n_rows && r >= 0; i++) {
        const struct ag_stack_row *row = &profile->rows[i];
        r = ag_index_map_insert_first(map, row->stack | (uint64_t)row->via << 32, (uint32_t)i);
    }
    return r;
}

static void take_block(void *context, const struct ag_block_row *row) {
    struct division *division = context;
    const struct ag_model_heap *heap =
        ag_definitions_heap_of_via(&division->profile->definitions, row->via);
    const bool is_here = heap == NULL || strcmp(heap->domain, "cpu") == 0;
    if (row->allocated_ns > division->moment_ns || row->freed_ns <= division->moment_ns ||
        row->size == 0 || row->address + row->size < row->address || !is_here) {
        return;
    }
    const uint32_t at =
        ag_index_map_find(&division->row_of_key, row->stack | (uint64_t)row->via << 32);
    const struct block block = {.low = row->address,
                                .high = row->address + row->size,
                                .row = at == AG_INDEX_NONE ? UINT32_MAX : at,
                                .is_managed = heap != NULL && strcmp(heap->kind, "malloc") != 0};
    if (AG_ARRAY_ADD(division->blocks, division->n_blocks, block) < 0) {
        division->error = -ENOMEM;
    }
}

static void take_range(void *context, uint64_t low, uint64_t high, uint32_t stack, uint32_t via) {
    struct division *division = context;
    const uint32_t row = ag_index_map_find(&division->mapping_key, stack | (uint64_t)via << 32);
    const struct range range = {low, high, row == AG_INDEX_NONE ? UINT32_MAX : row};
    if (AG_ARRAY_ADD(division->ranges, division->n_ranges, range) < 0) {
        division->error = -ENOMEM;
    }
}

static int by_low(const void *left, const void *right) {
    const struct block *a = left, *b = right;
    if (a->low != b->low) {
        return a->low < b->low ? -1 : 1;
    }
    return (a->high < b->high) - (a->high > b->high); /* a container before what is in it */
}

/* Sorts the blocks and makes them disjoint. A block in which another begins is a container. */
static int settle_blocks(struct division *division) {
    struct block *blocks = division->blocks;
    size_t n = 0;
    qsort(blocks, division->n_blocks, sizeof *blocks, by_low);
    for (size_t i = 0; i < division->n_blocks; i++) {
        const struct block block = blocks[i];
        struct range *container =
            division->n_containers > 0 ? &division->containers[division->n_containers - 1] : NULL;
        const bool is_container = i + 1 < division->n_blocks && blocks[i + 1].low < block.high &&
                                  blocks[i + 1].high <= block.high;
        if (is_container) {
            const struct range range = {block.low, block.high, UINT32_MAX};
            if (container != NULL && container->high >= block.high) {
                continue;
            }
            if (AG_ARRAY_ADD(division->containers, division->n_containers, range) < 0) {
                return -ENOMEM;
            }
        } else if (n == 0 || block.low >= blocks[n - 1].high) {
            blocks[n++] = block;
        } else if (block.high > blocks[n - 1].high) {
            /* the blocks overlap, because the order of their events was unknown */
            blocks[n] = block;
            blocks[n].low = blocks[n - 1].high;
            n++;
        }
    }
    division->n_blocks = n;
    return 0;
}

/* ---- pages ---- */

/* Returns the end of the memory that belongs to a block: see section 2. */
static uint64_t end_with_rounding(const struct division *division, size_t at) {
    enum { HEADER = 8, ALIGNMENT = 16, LEAST = 32 };
    const struct block *block = &division->blocks[at];
    const uint64_t size = block->high - block->low;
    const uint64_t next = at + 1 < division->n_blocks ? division->blocks[at + 1].low : UINT64_MAX;
    if (block->is_managed) {
        return block->high;
    }
    if (next - block->high <= ALIGNMENT + size / 4) {
        return next;
    }
    uint64_t whole = (size + HEADER + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    whole = whole < LEAST ? LEAST : whole;
    const uint64_t end = block->low - HEADER + whole;
    return end > block->high ? end : block->high;
}

static uint64_t overlap(uint64_t low, uint64_t high, uint64_t page, uint64_t page_end) {
    const uint64_t from = low > page ? low : page, to = high < page_end ? high : page_end;
    return to > from ? to - from : 0;
}

/* The range that contains the address; NULL: none. ADDRESS never decreases between two calls with
 * the same NEXT. */
static const struct range *range_at(const struct range *ranges, size_t n, size_t *next,
                                    uint64_t address) {
    while (*next < n && ranges[*next].high <= address) {
        (*next)++;
    }
    return *next < n && ranges[*next].low <= address ? &ranges[*next] : NULL;
}

/* Counts the blocks on a page, and charges its free bytes to them. Returns the number of bytes that
 * it counted. If there is no block on the page, only the rounding of the block before the page is
 * counted. */
static uint64_t count_blocks(struct division *division, uint64_t page, uint64_t page_end) {
    uint64_t *bytes = division->parts->bytes;
    uint64_t live = 0, managed = 0, rounding = 0, storage = 0;
    while (division->next_block < division->n_blocks &&
           division->blocks[division->next_block].high <= page) {
        division->next_block++;
    }
    const size_t first = division->next_block;
    if (first > 0) { /* the rounding of the block before may extend into this page */
        rounding += overlap(page, end_with_rounding(division, first - 1), page, page_end);
    }
    size_t end = first;
    for (; end < division->n_blocks && division->blocks[end].low < page_end; end++) {
        const struct block *block = &division->blocks[end];
        const uint64_t part = overlap(block->low, block->high, page, page_end);
        live += block->is_managed ? 0 : part;
        storage += block->is_thread_storage ? part : 0;
        managed += block->is_managed ? part : 0;
        rounding += overlap(block->high, end_with_rounding(division, end), page, page_end);
        if (block->row != UINT32_MAX && !block->is_thread_storage) {
            division->shares[block->row].live_bytes += part;
            division->shares[block->row].live_blocks +=
                block->low >= page; /* counted on its first page */
        }
    }
    bytes[AG_CLASS_LIVE] += live - storage;
    bytes[AG_CLASS_THREAD_STORAGE] += storage;
    bytes[AG_CLASS_MANAGED_IN_USE] += managed;
    bytes[AG_CLASS_ROUNDING] += rounding;
    if (first == end) {
        return rounding;
    }
    const uint64_t free_bytes = page_end - page - live - managed - rounding;
    bytes[managed > live ? AG_CLASS_MANAGED_FREE : AG_CLASS_PINNED_FREE] += free_bytes;
    uint64_t left = free_bytes;
    for (size_t i = first; i < end && managed <= live && free_bytes > 0; i++) {
        const struct block *block = &division->blocks[i];
        const uint64_t part = overlap(block->low, block->high, page, page_end);
        const uint64_t charge = i + 1 == end ? left : free_bytes * part / (live + managed);
        left -= charge;
        if (block->row != UINT32_MAX) {
            struct share *share = &division->shares[block->row];
            share->pinned_bytes += charge;
            share->pinning_bytes += part;
            share->pinning_blocks += share->last_pinning != i + 1;
            share->last_pinning = (uint32_t)(i + 1);
        }
    }
    return page_end - page;
}

static void count_page(struct division *division, uint64_t page, uint64_t page_end,
                       enum ag_resident_class others) {
    const uint64_t counted = count_blocks(division, page, page_end);
    const uint64_t rest = page_end - page - counted;
    const struct range *range = range_at(division->ranges, division->n_ranges,
                                         &division->next_range, page),
                       *container = range_at(division->containers, division->n_containers,
                                             &division->next_container, page);
    struct share *share =
        range != NULL && range->row != UINT32_MAX ? &division->range_shares[range->row] : NULL;
    if (container != NULL) {
        others = AG_CLASS_MANAGED_FREE;
    } else if (range != NULL && (share == NULL || share->has_blocks)) {
        /* of an allocator: the profile of mappings has no row for it */
        others = others == AG_CLASS_MANAGED_FREE ? others : AG_CLASS_RETURNABLE;
    } else if (range != NULL) {
        others = AG_CLASS_PROGRAM_MAPPINGS;
        if (share != NULL) {
            share->live_bytes += rest;
        }
    }
    division->parts->bytes[others] += rest;
    if (others == AG_CLASS_RETURNABLE && range == NULL && counted == 0 &&
        page < division->trim_end) {
        division->parts->trim_bytes += rest;
    }
}

/* Returns the first block that ends after ADDRESS. */
static size_t find_block(const struct division *division, uint64_t address) {
    size_t low = 0, high = division->n_blocks;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (division->blocks[middle].high <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Marks the blocks that are thread storage (struct ag_storage_range). */
static void find_blocks_of_storage(struct division *division) {
    const struct ag_resident_look *look = &division->look->look;
    for (size_t i = 0; i < look->n_storage; i++) {
        const struct ag_storage_range *range = &look->storage[i];
        const size_t at = find_block(division, range->low);
        if (range->low == range->high && at < division->n_blocks &&
            division->blocks[at].low <= range->low) {
            division->blocks[at].is_thread_storage = !division->blocks[at].is_managed;
        }
    }
}

/* Returns the library that called mmap on the stack of ROW; 0: the program's own file called mmap,
 * or the caller is unknown. */
static uint32_t library_of_row(const struct ag_profile *mappings, size_t row) {
    const struct ag_definitions *definitions = &mappings->definitions;
    const struct ag_stack_nodes *nodes = &definitions->nodes;
    const uint32_t node = mappings->row_nodes[row];
    const uint32_t image = AG_IS_ROOT(node) ? 0 : nodes->sites[nodes->nodes[node].site].image;
    for (size_t i = 0; i < definitions->n_images && image != 0; i++) {
        const struct ag_model_image *known = &definitions->images[i];
        if (known->image == image) {
            const char *path = ag_text(&definitions->texts, known->path);
            return definitions->exe && strcmp(path, definitions->exe) == 0 ? 0 : image;
        }
    }
    return 0;
}

/* An allocator that is a library of the program (jemalloc, mimalloc, tcmalloc) maps memory like the
 * program itself. If a stack mapped memory that contains blocks of malloc, the stack belongs to the
 * allocator, and so do all other stacks on which the same library called mmap. */
static void find_mappings_of_malloc(struct division *division) {
    for (size_t i = 0; i < division->n_ranges; i++) {
        const struct range *range = &division->ranges[i];
        const size_t at = find_block(division, range->low);
        if (range->row != UINT32_MAX && at < division->n_blocks &&
            division->blocks[at].low < range->high && !division->blocks[at].is_managed) {
            division->range_shares[range->row].has_blocks = true;
        }
    }
    struct ag_index_map libraries = {0};
    const size_t n_rows = division->mappings->n_rows;
    for (size_t i = 0; i < n_rows; i++) {
        const uint32_t library = library_of_row(division->mappings, i);
        if (division->range_shares[i].has_blocks && library != 0) {
            /* without memory for the map, the library's other mappings count as the program's */
            (void)ag_index_map_insert_first(&libraries, library, 0);
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        division->range_shares[i].has_blocks |=
            ag_index_map_find(&libraries, library_of_row(division->mappings, i)) != AG_INDEX_NONE;
    }
    ag_index_map_done(&libraries);
}

/* Returns the class of those pages of a mapping that contain no block and were not mapped by the
 * program itself. */
static enum ag_resident_class class_of_others(const struct division *division,
                                              const struct ag_resident_mapping *mapping) {
    bool has_malloc = (mapping->flags & AG_RESIDENT_HEAP) != 0, has_managed = false;
    for (size_t i = find_block(division, mapping->low);
         i < division->n_blocks && division->blocks[i].low < mapping->high && !has_malloc; i++) {
        has_malloc = !division->blocks[i].is_managed;
        has_managed |= division->blocks[i].is_managed;
    }
    return has_malloc                               ? AG_CLASS_RETURNABLE
           : has_managed                            ? AG_CLASS_MANAGED_FREE
           : mapping->flags & AG_RESIDENT_NORESERVE ? AG_CLASS_AGENT
                                                    : AG_CLASS_UNKNOWN;
}

/* glibc's malloc stores the size of a block in the 8 bytes before the block. If more than a few
 * blocks of a mapping begin less than 8 bytes after the previous block, they belong to another
 * allocator that also uses brk. (A few blocks may do so because the order of their events was
 * unknown.) */
static bool may_be_of_glibc(const struct division *division,
                            const struct ag_resident_mapping *mapping) {
    enum { SIZE_BYTES = 8, PERCENT_MOST = 2 };
    size_t n = 0, n_without = 0;
    for (size_t i = find_block(division, mapping->low);
         i + 1 < division->n_blocks && division->blocks[i + 1].low < mapping->high; i++) {
        n_without += division->blocks[i + 1].low - division->blocks[i].high < SIZE_BYTES;
        n++;
    }
    return n_without * 100 <= n * PERCENT_MOST;
}

/* malloc_trim gives back the free pages between the blocks of all arenas, but of the free ends of
 * arenas (the "tops") only that of the first thread's arena. The top of another arena is what lies
 * above the last block of a mapping that has not reached the greatest size. */
static uint64_t trim_end_of(const struct division *division,
                            const struct ag_resident_mapping *mapping) {
    const bool is_heap =
        (mapping->flags & AG_RESIDENT_HEAP) != 0 && may_be_of_glibc(division, mapping);
    const bool is_top = mapping->path[0] != '[' && mapping->high % AG_ARENA_BYTES != 0;
    const size_t at = find_block(division, mapping->high);
    const bool has_block = at > 0 && division->blocks[at - 1].high > mapping->low;
    return !is_heap    ? mapping->low /* memory of another allocator */
           : !is_top   ? UINT64_MAX
           : has_block ? division->blocks[at - 1].high
                       : mapping->low;
}

/* Returns the first address after PAGE at which a range begins or ends, but at most END. */
static uint64_t next_border(const struct range *ranges, size_t n, size_t *next, uint64_t page,
                            uint64_t end) {
    (void)range_at(ranges, n, next, page);
    if (*next == n) {
        return end;
    }
    const uint64_t border = ranges[*next].low > page ? ranges[*next].low : ranges[*next].high;
    return border < end ? border : end;
}

/* Returns how many of the bytes from PAGE to END, in whole pages, can be counted like one page: all
 * of them are in the same block, or in the rounding of the same block, or in none, and in the same
 * ranges. The result is at least PAGE_BYTES. So the time depends on the numbers of blocks and
 * ranges, not on the number of pages, which a hostile trace can make as large as it likes. */
static uint64_t alike_bytes(struct division *division, uint64_t page, uint64_t end,
                            uint64_t page_bytes) {
    while (division->next_block < division->n_blocks &&
           division->blocks[division->next_block].high <= page) {
        division->next_block++;
    }
    const size_t next = division->next_block;
    const uint64_t rounded = next > 0 ? end_with_rounding(division, next - 1) : 0;
    end = rounded > page && rounded < end ? rounded : end;
    if (next < division->n_blocks) {
        const struct block *block = &division->blocks[next];
        const uint64_t border = block->low > page ? block->low : block->high;
        end = border < end ? border : end;
    }
    end = next_border(division->ranges, division->n_ranges, &division->next_range, page, end);
    end = next_border(division->containers, division->n_containers, &division->next_container, page,
                      end);
    end = division->trim_end > page && division->trim_end < end ? division->trim_end : end;
    return end - page > page_bytes ? (end - page) / page_bytes * page_bytes : page_bytes;
}

/* STORAGE_BYTES: the thread storage in the mapping that is in no block. */
static void count_pages(struct division *division, const struct ag_resident_mapping *mapping,
                        uint64_t page_bytes, uint64_t storage_bytes) {
    const enum ag_resident_class others = class_of_others(division, mapping);
    const uint64_t others_before = division->parts->bytes[others];
    struct ag_page_runs runs = ag_page_runs_of(mapping, page_bytes);
    uint64_t counted = 0;
    division->trim_end = trim_end_of(division, mapping);
    while (ag_page_runs_next(&runs)) {
        for (uint64_t page = runs.low, alike; page < runs.high; page += alike) {
            alike = alike_bytes(division, page, runs.high, page_bytes);
            count_page(division, page, page + alike, others);
        }
        counted += runs.high - runs.low;
    }
    const uint64_t others_bytes = division->parts->bytes[others] - others_before;
    const uint64_t storage = storage_bytes < others_bytes ? storage_bytes : others_bytes;
    division->parts->bytes[others] -= storage;
    division->parts->bytes[AG_CLASS_THREAD_STORAGE] += storage;
    /* the number of resident bytes and the list of pages are read one after the other, and the
     * resident pages may change between the two readings */
    division->parts->bytes[AG_CLASS_UNKNOWN] +=
        mapping->rss_bytes > counted ? mapping->rss_bytes - counted : 0;
}

/* ---- mappings ---- */

static void count_mapping(struct division *division, const struct ag_resident_mapping *mapping) {
    uint64_t bytes[AG_RESIDENT_CLASSES];
    const struct ag_resident_look *look = &division->look->look;
    ag_resident_mapping_divide(look, mapping, bytes);
    if (mapping->pages != NULL && bytes[AG_CLASS_HEAP] + bytes[AG_CLASS_ANONYMOUS] > 0) {
        count_pages(division, mapping, look->page_bytes, bytes[AG_CLASS_THREAD_STORAGE]);
        return;
    }
    for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
        enum ag_resident_class resident_class = k == AG_CLASS_HEAP || k == AG_CLASS_ANONYMOUS
                                                    ? AG_CLASS_UNKNOWN
                                                    : (enum ag_resident_class)k;
        const bool may_be_mapped = k == AG_CLASS_SHARED || k == AG_CLASS_ANONYMOUS;
        const struct range *range = bytes[k] > 0 && may_be_mapped
                                        ? range_at(division->ranges, division->n_ranges,
                                                   &division->next_range, mapping->low)
                                        : NULL;
        if (range != NULL) {
            resident_class = AG_CLASS_PROGRAM_MAPPINGS;
            if (range->row != UINT32_MAX) {
                division->range_shares[range->row].live_bytes += bytes[k];
            }
        }
        division->parts->bytes[resident_class] += bytes[k];
    }
}

static void count_mappings(struct division *division) {
    for (size_t i = 0; i < division->n_ranges; i++) {
        const uint32_t row = division->ranges[i].row;
        if (row != UINT32_MAX) {
            division->range_shares[row].live_blocks++;
        }
    }
}

static int divide(struct division *division) {
    const struct ag_resident_look *look = &division->look->look;
    struct ag_resident_parts *parts = division->parts;
    uint64_t until = 0;
    count_mappings(division);
    find_mappings_of_malloc(division);
    find_blocks_of_storage(division);
    for (size_t i = 0; i < look->n_mappings; i++) {
        const struct ag_resident_mapping *mapping = &look->mappings[i];
        if (mapping->low >= until) { /* the kernel sorts them by address */
            count_mapping(division, mapping);
            until = mapping->high;
        }
    }
    for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
        parts->rss_bytes += parts->bytes[k];
    }
    return 0;
}

/* ---- lines ---- */

static int by_bytes(const void *left, const void *right) {
    const struct ag_resident_site *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* Sums the shares of the rows by their blamed lines. */
static int make_sites(struct ag_profile *profile, const struct share *shares,
                      enum ag_resident_class resident_class, struct ag_resident_parts *parts) {
    const struct ag_blamed_line *lines;
    size_t n_lines, n = 0;
    const int r = ag_profile_blamed_lines(profile, &lines, &n_lines);
    struct ag_resident_site *sites = r < 0 ? NULL : calloc(n_lines + 1, sizeof *sites);
    if (sites == NULL) {
        return r < 0 ? r : -ENOMEM;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        struct ag_resident_site *site = &sites[profile->line_of_row[i]];
        const bool is_pinned = resident_class == AG_CLASS_PINNED_FREE;
        site->bytes += is_pinned ? shares[i].pinned_bytes : shares[i].live_bytes;
        site->blocks += is_pinned ? shares[i].pinning_blocks : shares[i].live_blocks;
        site->block_bytes += is_pinned ? shares[i].pinning_bytes : shares[i].live_bytes;
    }
    for (size_t i = 0; i < n_lines; i++) {
        sites[i].frame = ag_profile_frame(profile, lines[i].frame);
        sites[i].frame_number = lines[i].frame;
        if (sites[i].bytes > 0) {
            sites[n++] = sites[i];
        }
    }
    qsort(sites, n, sizeof *sites, by_bytes);
    parts->sites[resident_class] = sites;
    parts->n_sites[resident_class] = n;
    return 0;
}

/* ---- the whole ---- */

static int check(const struct ag_profile *profile, char message[512]) {
    const struct ag_profile_identity *identity = &profile->identity;
    const char *why = NULL;
    int r = -ENOTSUP;
    if (profile->n_parts > 0) {
        why = "this view shows one process; omit --merge";
    } else if (identity->is_sampled || identity->filter != NULL) {
        why = "this view needs all blocks; record with --mode=exact and without --filter";
    } else if (profile->is_filtered || profile->has_window) {
        why = "this view shows the whole process at its peak; omit the options that select a part";
    } else if (profile->definitions.peak_look.look.n_mappings == 0) {
        why =
            "this trace does not have the resident memory of the process: the process ended too soon, "
            "has blocks that were allocated before the recording (attach, --delay, a forked child), "
            "or its /proc could not be read";
        r = -ENODATA;
    }
    if (why != NULL) {
        (void)snprintf(message, 512, "%s", why);
    }
    return why != NULL ? r : 0;
}

bool ag_profile_has_resident_parts(const struct ag_profile *profile) {
    char message[512];
    return check(profile, message) == 0;
}

static int collect(struct division *division, char message[512]) {
    struct ag_profile *profile = division->profile;
    int r = ag_profile_mappings(profile, &division->mappings, message);
    r = r < 0 ? r : index_rows(profile, &division->row_of_key);
    r = r < 0 ? r : index_rows(division->mappings, &division->mapping_key);
    r = r < 0 ? r
              : ag_profile_blocks(profile, AG_BLOCK_OPEN | AG_BLOCK_CLOSED, take_block, division);
    r = r < 0 ? r
              : ag_mapping_pass_at(division->mappings->file, &division->mappings->definitions,
                                   &division->mappings->pass, division->look->time_ns, take_range,
                                   division);
    r = r < 0 ? r : division->error;
    r = r < 0 ? r : settle_blocks(division);
    division->shares = calloc(profile->n_rows + 1, sizeof *division->shares);
    division->range_shares =
        calloc(r < 0 ? 1 : division->mappings->n_rows + 1, sizeof *division->range_shares);
    return r < 0 ? r : division->shares && division->range_shares ? 0 : -ENOMEM;
}

bool ag_profile_has_resident_end(const struct ag_profile *profile) {
    return profile->definitions.last_look.look.n_mappings > 0;
}

int ag_profile_resident_parts(struct ag_profile *profile, enum ag_resident_moment when,
                              struct ag_resident_parts *ret_parts, char ret_message[512]) {
    ret_message[0] = '\0';
    int r = check(profile, ret_message);
    if (r < 0) {
        return r;
    }
    const struct ag_definitions *definitions = &profile->definitions;
    const bool has_last = definitions->last_look.look.n_mappings > 0;
    const struct ag_model_look *moment =
        when == AG_RESIDENT_AT_END && has_last ? &definitions->last_look : &definitions->peak_look;
    const struct ag_resident_look *look = &moment->look;
    const uint64_t start_ns = definitions->start_ns, look_ns = moment->time_ns;
    struct ag_resident_parts parts = {.moment_ns = look_ns > start_ns ? look_ns - start_ns : 0,
                                      .page_table_bytes = look->page_table_bytes,
                                      .hugetlb_bytes = look->hugetlb_bytes,
                                      .swap_bytes = look->swap_bytes};
    struct division division = {
        .profile = profile, .look = moment, .parts = &parts, .moment_ns = parts.moment_ns};
    r = collect(&division, ret_message);
    r = r < 0 ? r : divide(&division);
    r = r < 0 ? r : make_sites(profile, division.shares, AG_CLASS_LIVE, &parts);
    r = r < 0 ? r : make_sites(profile, division.shares, AG_CLASS_PINNED_FREE, &parts);
    r = r < 0 ? r
              : make_sites(division.mappings, division.range_shares, AG_CLASS_PROGRAM_MAPPINGS,
                           &parts);
    ag_index_map_done(&division.row_of_key);
    ag_index_map_done(&division.mapping_key);
    free(division.blocks);
    free(division.containers);
    free(division.ranges);
    free(division.shares);
    free(division.range_shares);
    if (r < 0) {
        ag_resident_parts_done(&parts);
        if (ret_message[0] == '\0') {
            (void)snprintf(ret_message, 512, "%s", strerror(-r));
        }
        return r;
    }
    *ret_parts = parts;
    return 0;
}

void ag_resident_parts_done(struct ag_resident_parts *parts) {
    for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
        free(parts->sites[k]);
    }
    *parts = (struct ag_resident_parts){0};
}
