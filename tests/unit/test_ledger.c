/* test_ledger.c: the ledger (src/ledger, which computes the live blocks and the sums of each
 * stack from events). For random events of one stream (thread), it is compared with a simple
 * reference, which has an entry for each address and copies all sums at each peak. For time
 * windows, events that come late, heaps, mapped bytes, the timeline and single blocks, it is
 * compared with numbers computed by hand or by a loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/ledger.h"
#include "ledger/timeline.h"

enum { STACKS = 40, VIAS = 3, ADDRESSES = 64, EVENTS = 3000 };

static uint64_t random_state;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

/* ---- the reference ---- */
struct naive_block {
    bool is_live, is_temporary;
    uint32_t stack, via;
    uint64_t size, serial;
};
struct naive { /* within: a block is temporary if at most `within` further blocks were
                * allocated before it was freed */
    struct naive_block blocks[ADDRESSES], undo;
    uint64_t undo_address, serial, within;
    bool undo_was_ghost, undo_was_temporary, is_forked;
    /* by address: frees that found no block; in a forked process the first one counts as the free
     * of an inherited block, the others as ghosts */
    uint32_t unseen[ADDRESSES];
    struct ag_stack_sum sums[STACKS][VIAS];
    uint64_t in_use_blocks, in_use_bytes, ghosts, inherited, now_ns;
    uint64_t peak_bytes, peak_blocks, peak_time_ns;
};

static struct ag_stack_sum *naive_sum(struct naive *naive, const struct naive_block *block) {
    return &naive->sums[block->stack][block->via];
}

static void naive_peak(struct naive *naive) {
    if (naive->in_use_bytes < naive->peak_bytes) {
        return;
    }
    naive->peak_bytes = naive->in_use_bytes;
    naive->peak_blocks = naive->in_use_blocks;
    naive->peak_time_ns = naive->now_ns;
    for (size_t i = 0; i < STACKS; i++) {
        for (size_t k = 0; k < VIAS; k++) {
            struct ag_stack_sum *sum = &naive->sums[i][k];
            sum->peak_blocks = sum->allocated_blocks - sum->freed_blocks;
            sum->peak_bytes = sum->allocated_bytes - sum->freed_bytes;
        }
    }
}

static void naive_free(struct naive *naive, uint64_t address) {
    struct naive_block *block = &naive->blocks[address];
    naive->undo_address = address;
    naive->undo = *block;
    naive->undo_was_ghost = !block->is_live;
    if (!block->is_live) {
        const bool is_inherited = naive->unseen[address]++ == 0 && naive->is_forked;
        naive->inherited += is_inherited;
        naive->ghosts += !is_inherited;
        return;
    }
    struct ag_stack_sum *sum = naive_sum(naive, block);
    naive->undo_was_temporary = naive->serial - block->serial <= naive->within;
    sum->freed_blocks++;
    sum->freed_bytes += block->size;
    sum->temporary_blocks += naive->undo_was_temporary;
    naive->in_use_blocks--;
    naive->in_use_bytes -= block->size;
    block->is_live = false;
}

static void naive_undo(struct naive *naive) {
    if (naive->undo_was_ghost) {
        const bool is_inherited = --naive->unseen[naive->undo_address] == 0 && naive->is_forked;
        naive->inherited -= is_inherited;
        naive->ghosts -= !is_inherited;
        return;
    }
    struct ag_stack_sum *sum = naive_sum(naive, &naive->undo);
    sum->freed_blocks--;
    sum->freed_bytes -= naive->undo.size;
    sum->temporary_blocks -= naive->undo_was_temporary;
    naive->in_use_blocks++;
    naive->in_use_bytes += naive->undo.size;
    naive->blocks[naive->undo_address] = naive->undo;
}

static void naive_apply(struct naive *naive, const struct ag_event *event) {
    switch ((enum ag_record_kind)event->kind) {
    case AG_RECORD_STAMP:
        naive->now_ns = event->size;
        break;
    case AG_RECORD_ALLOC: {
        struct naive_block *block = &naive->blocks[event->address];
        *block = (struct naive_block){.is_live = true,
                                      .stack = event->stack,
                                      .via = event->via,
                                      .size = event->size,
                                      .serial = ++naive->serial};
        naive_sum(naive, block)->allocated_blocks++;
        naive_sum(naive, block)->allocated_bytes += event->size;
        naive->in_use_blocks++;
        naive->in_use_bytes += event->size;
        naive_peak(naive);
        break;
    }
    case AG_RECORD_FREE:
    case AG_RECORD_REALLOC_FREE:
        naive_free(naive, event->address);
        break;
    case AG_RECORD_UNDO_FREE:
        naive_undo(naive);
        break;
    default:
        fail();
    }
}

/* ---- random programs ---- */
static size_t random_event(const struct naive *naive, struct ag_event *events) {
    const uint32_t address = 1 + random_below(ADDRESSES - 1);
    const bool is_live = naive->blocks[address].is_live;
    const struct ag_event alloc = {.kind = AG_RECORD_ALLOC,
                                   .address = address,
                                   .size = random_below(8) ? random_below(1000) : 0,
                                   .stack = random_below(STACKS),
                                   .via = (uint8_t)random_below(VIAS)};
    const uint32_t dice = random_below(20);
    if (dice == 0) {
        events[0] =
            (struct ag_event){.kind = AG_RECORD_STAMP, .size = naive->now_ns + random_below(5000)};
        return 1;
    }
    /* a realloc of a block or of a ghost (an address without a block); it may fail */
    if (dice == 1) {
        events[0] = (struct ag_event){.kind = AG_RECORD_REALLOC_FREE, .address = address};
        events[1] = random_below(2)
                        ? alloc
                        : (struct ag_event){.kind = AG_RECORD_UNDO_FREE, .address = address};
        return 2;
    }
    if (!is_live && dice > 2) {
        events[0] = alloc;
        return 1;
    }
    events[0] =
        (struct ag_event){.kind = AG_RECORD_FREE, .address = address}; /* sometimes at an address
                                                                        * without a block */
    return 1;
}

static void check_sums(const struct ag_ledger *ledger, const struct naive *naive) {
    const struct ag_stack_sum *sums;
    const struct ag_live_sum *live;
    const size_t n = ag_ledger_stack_sums(ledger, &sums);
    assert_int_equal(ag_ledger_live_sums(ledger, &live), n);
    struct ag_stack_sum all = {0};
    for (size_t i = 0; i < n; i++) {
        const struct ag_stack_sum *want = &naive->sums[sums[i].stack][sums[i].via];
        assert_int_equal(sums[i].allocated_blocks, want->allocated_blocks);
        assert_int_equal(sums[i].allocated_bytes, want->allocated_bytes);
        assert_int_equal(sums[i].freed_blocks, want->freed_blocks);
        assert_int_equal(sums[i].freed_bytes, want->freed_bytes);
        assert_int_equal(sums[i].peak_blocks, want->peak_blocks);
        assert_int_equal(sums[i].peak_bytes, want->peak_bytes);
        assert_int_equal(sums[i].temporary_blocks, want->temporary_blocks);
        assert_int_equal(live[i].blocks, want->allocated_blocks - want->freed_blocks);
        assert_int_equal(live[i].bytes, want->allocated_bytes - want->freed_bytes);
        all.peak_bytes += sums[i].peak_bytes;
        all.peak_blocks += sums[i].peak_blocks;
    }
    assert_int_equal(all.peak_bytes, naive->peak_bytes); /* the shares of all stacks add up to the
                                                          * peak */
    assert_int_equal(all.peak_blocks, naive->peak_blocks);
}

static void check_summary(const struct ag_ledger *ledger, const struct naive *naive) {
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    assert_int_equal(summary->in_use_blocks, naive->in_use_blocks);
    assert_int_equal(summary->in_use_bytes, naive->in_use_bytes);
    assert_int_equal(summary->peak_bytes, naive->peak_bytes);
    assert_int_equal(summary->peak_blocks, naive->peak_blocks);
    assert_int_equal(summary->peak_time_ns, naive->peak_time_ns);
    assert_int_equal(summary->peak_low_bytes, naive->peak_bytes);
    assert_int_equal(summary->peak_high_bytes, naive->peak_bytes);
    assert_int_equal(summary->ghost_frees, naive->ghosts);
    assert_int_equal(summary->inherited_frees, naive->inherited);
    assert_int_equal(summary->allocated_blocks, summary->freed_blocks + summary->in_use_blocks);
    assert_int_equal(summary->allocated_bytes, summary->freed_bytes + summary->in_use_bytes);
    assert_int_equal(summary->allocated_blocks, naive->serial);
}

static void random_streams_equal_the_reference(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        random_state = round;
        struct naive naive = {.within = round % 3, .is_forked = round % 2 == 1};
        struct ag_ledger *ledger = ag_ledger_new();
        if (naive.is_forked) {
            ag_ledger_expect_inherited(ledger);
        }
        ag_ledger_set_temporary_within(ledger, round % 3);
        struct ag_event events[EVENTS + 2];
        size_t n = 0, n_stamps = 0;
        for (size_t k = 0; n < EVENTS; n += k) {
            k = random_event(&naive, &events[n]);
            for (size_t i = 0; i < k; i++) {
                naive_apply(&naive, &events[n + i]);
                n_stamps += events[n + i].kind == AG_RECORD_STAMP;
            }
        }
        for (size_t at = 0, k; at < n;
             at += k) { /* a batch may end between the two events of a realloc */
            k = 1 + random_below(300);
            k = k < n - at ? k : n - at;
            assert_int_equal(ag_ledger_apply(ledger, 7, &events[at], k), 0);
        }
        assert_int_equal(ag_ledger_close(ledger), 0);
        check_sums(ledger, &naive);
        check_summary(ledger, &naive);
        assert_int_equal(ag_ledger_summary(ledger)->events, n - n_stamps);
        ag_ledger_free(ledger);
    }
}

static void many_blocks_grow_and_empty_the_table(void **state) {
    (void)state;
    enum { BLOCKS = 300000 };
    struct ag_ledger *ledger = ag_ledger_new();
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const struct ag_event alloc = {
            .kind = AG_RECORD_ALLOC, .address = 0x7f0000000000u + i * 16u, .size = i, .stack = i};
        assert_int_equal(ag_ledger_apply(ledger, 0, &alloc, 1), 0);
    }
    for (uint32_t i = 0; i < BLOCKS;
         i++) { /* visits each block once, in another order: 7 and BLOCKS have no common divisor */
        const struct ag_event free = {.kind = AG_RECORD_FREE,
                                      .address = 0x7f0000000000u + (uint64_t)i * 7 % BLOCKS * 16u};
        assert_int_equal(ag_ledger_apply(ledger, 0, &free, 1), 0);
    }
    assert_int_equal(ag_ledger_close(ledger), 0);
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    assert_int_equal(summary->allocated_blocks, BLOCKS);
    assert_int_equal(summary->freed_blocks, BLOCKS);
    assert_int_equal(summary->freed_bytes, (uint64_t)BLOCKS * (BLOCKS - 1) / 2);
    assert_int_equal(summary->ghost_frees, 0);
    assert_int_equal(summary->peak_bytes, (uint64_t)BLOCKS * (BLOCKS - 1) / 2);
    const struct ag_stack_sum *sums;
    assert_int_equal(ag_ledger_stack_sums(ledger, &sums), BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(sums[i].peak_bytes, i);
    }
    ag_ledger_free(ledger);
}

static void the_latest_of_equal_peaks_counts(void **state) {
    (void)state;
    const struct ag_event events[] = {
        {.kind = AG_RECORD_STAMP, .size = 10},
        {.kind = AG_RECORD_ALLOC, .address = 1, .size = 100, .stack = 1},
        {.kind = AG_RECORD_FREE, .address = 1},
        {.kind = AG_RECORD_STAMP, .size = 20},
        {.kind = AG_RECORD_ALLOC, .address = 2, .size = 60, .stack = 2},
        {.kind = AG_RECORD_ALLOC, .address = 3, .size = 40, .stack = 3},
        {.kind = AG_RECORD_STAMP, .size = 30},
        {.kind = AG_RECORD_FREE, .address = 2},
    };
    struct ag_ledger *ledger = ag_ledger_new();
    assert_int_equal(ag_ledger_apply(ledger, 0, events, sizeof(events) / sizeof(events[0])), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    assert_int_equal(summary->peak_bytes, 100);
    assert_int_equal(summary->peak_blocks, 2);
    assert_int_equal(summary->peak_time_ns, 20);
    const struct ag_stack_sum *sums;
    assert_int_equal(ag_ledger_stack_sums(ledger, &sums), 3);
    assert_int_equal(sums[0].peak_bytes, 0);
    assert_int_equal(sums[1].peak_bytes, 60);
    assert_int_equal(sums[2].peak_bytes, 40);
    ag_ledger_free(ledger);
}

static void an_alloc_of_a_live_address_ends_the_block_whose_free_was_lost(void **state) {
    (void)state;
    const struct ag_event events[] = {
        {.kind = AG_RECORD_ALLOC, .address = 1, .size = 100, .stack = 1},
        {.kind = AG_RECORD_ALLOC, .address = 1, .size = 30, .stack = 2},
    };
    struct ag_ledger *ledger = ag_ledger_new();
    assert_int_equal(ag_ledger_apply(ledger, 0, events, 2), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    assert_int_equal(summary->allocated_blocks, 2);
    assert_int_equal(summary->freed_blocks, 1);
    assert_int_equal(summary->freed_bytes, 100);
    assert_int_equal(summary->in_use_bytes, 30);
    assert_int_equal(summary->peak_bytes, 100);
    assert_int_equal(summary->order_repairs, 1);
    ag_ledger_free(ledger);
}

static void a_time_window_counts_what_happens_inside(void **state) {
    (void)state;
    const struct ag_event before[] = {
        {.kind = AG_RECORD_STAMP, .size = 10},
        {.kind = AG_RECORD_ALLOC, .address = 1, .size = 1000, .stack = 1},
        {.kind = AG_RECORD_ALLOC, .address = 2, .size = 500, .stack = 1},
        {.kind = AG_RECORD_FREE, .address = 2},
    };
    const struct ag_event inside[] = {
        {.kind = AG_RECORD_STAMP, .size = 20},
        {.kind = AG_RECORD_ALLOC, .address = 3, .size = 70, .stack = 2},
        {.kind = AG_RECORD_FREE, .address = 1},
        {.kind = AG_RECORD_ALLOC, .address = 4, .size = 5, .stack = 1},
        {.kind = AG_RECORD_FREE, .address = 9},
    };
    struct ag_ledger *ledger = ag_ledger_new();
    assert_int_equal(ag_ledger_apply(ledger, 0, before, 4), 0);
    assert_int_equal(ag_ledger_restart(ledger), 0);
    assert_int_equal(ag_ledger_apply(ledger, 0, inside, 5), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    assert_int_equal(summary->allocated_blocks, 2);
    assert_int_equal(summary->allocated_bytes, 75);
    assert_int_equal(summary->freed_blocks, 1);
    assert_int_equal(summary->freed_bytes, 1000);
    assert_int_equal(summary->in_use_bytes, 75);
    assert_int_equal(summary->peak_bytes, 1070);
    assert_int_equal(summary->peak_low_bytes, 1070);
    assert_int_equal(summary->peak_high_bytes, 1070);
    assert_int_equal(summary->ghost_frees, 1);
    assert_int_equal(summary->events, 4);
    const struct ag_stack_sum *sums;
    const struct ag_live_sum *live;
    assert_int_equal(ag_ledger_stack_sums(ledger, &sums), 2);
    ag_ledger_live_sums(ledger, &live);
    assert_int_equal(sums[0].freed_bytes, 1000);
    assert_int_equal(sums[0].peak_bytes, 1000);
    assert_int_equal(live[0].bytes, 5);
    assert_int_equal(live[1].bytes, 70);
    ag_ledger_free(ledger);
}

/* Thread 1 allocates at an address that another thread has freed, but the event of the free comes
 * late. The ledger keeps the allocation waiting for this free until the time window has begun. The
 * allocation must count in the window. */
static void a_waiting_alloc_counts_in_the_window_for_thread_and_total(void **state) {
    (void)state;
    const struct ag_event first[] = {
        {.kind = AG_RECORD_STAMP, .size = 10},
        {.kind = AG_RECORD_ALLOC, .address = 16, .size = 1000, .stack = 1},
    };
    const struct ag_event second[] = {
        {.kind = AG_RECORD_STAMP, .size = 20},
        {.kind = AG_RECORD_ALLOC, .address = 16, .size = 70, .stack = 2},
    };
    const struct ag_event late[] = {{.kind = AG_RECORD_FREE, .address = 16}};
    struct ag_ledger *ledger = ag_ledger_new();
    ag_ledger_expect_streams(ledger);
    assert_int_equal(ag_ledger_apply(ledger, 0, first, 2), 0);
    assert_int_equal(ag_ledger_apply(ledger, 1, second, 2), 0);
    assert_int_equal(ag_ledger_restart(ledger), 0);
    assert_int_equal(ag_ledger_apply(ledger, 0, late, 1), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    assert_int_equal(summary->allocated_blocks, 1);
    assert_int_equal(summary->allocated_bytes, 70);
    const struct ag_thread_sum *threads;
    const size_t n = ag_ledger_thread_sums(ledger, &threads);
    uint64_t blocks = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        blocks += threads[i].allocated_blocks;
        bytes += threads[i].allocated_bytes;
    }
    assert_int_equal(blocks, 1);
    assert_int_equal(bytes, 70);
    ag_ledger_free(ledger);
}

static void note_freed(void *context, const struct ag_block *block) {
    *(uint64_t *)context = block->freed_ns;
}

/* Thread 0 frees a block that another thread has allocated, but the event of the allocation comes
 * late. The ledger keeps the free waiting for the allocation until the time window has begun. The
 * free must count in the window. */
static void a_waiting_free_counts_in_the_window_for_total_and_block(void **state) {
    (void)state;
    const struct ag_event early[] = {
        {.kind = AG_RECORD_STAMP, .size = 10},
        {.kind = AG_RECORD_FREE, .address = 16},
    };
    const struct ag_event late[] = {
        {.kind = AG_RECORD_STAMP, .size = 5},
        {.kind = AG_RECORD_ALLOC, .address = 16, .size = 70, .stack = 1},
    };
    uint64_t freed_ns = 0;
    struct ag_ledger *ledger = ag_ledger_new();
    ag_ledger_expect_streams(ledger);
    assert_int_equal(ag_ledger_on_block(ledger, note_freed, &freed_ns), 0);
    assert_int_equal(ag_ledger_apply(ledger, 0, early, 2), 0);
    ag_ledger_reach(ledger, 15);
    assert_int_equal(ag_ledger_restart(ledger), 0);
    assert_int_equal(ag_ledger_apply(ledger, 1, late, 2), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    assert_int_equal(ag_ledger_summary(ledger)->freed_blocks, 1);
    assert_int_equal(ag_ledger_summary(ledger)->freed_bytes, 70);
    assert_int_equal(freed_ns, 15);
    ag_ledger_free(ledger);
}

static void heaps_are_sums_of_their_vias_and_ranges(void **state) {
    (void)state;
    const struct ag_event events[] = {
        {.kind = AG_RECORD_ALLOC, .address = 1, .size = 10, .stack = 1, .via = 1},
        {.kind = AG_RECORD_ALLOC, .address = 2, .size = 20, .stack = 1, .via = 2},
        {.kind = AG_RECORD_ALLOC, .address = 3, .size = 40, .stack = 1, .via = 3},
        {.kind = AG_RECORD_FREE, .address = 1},
    };
    struct ag_ledger *ledger = ag_ledger_new();
    ag_ledger_via_heap(ledger, 1, 5);
    ag_ledger_via_heap(ledger, 2, 5);
    ag_ledger_map(ledger, 5, 0x10000, 0x8000);
    ag_ledger_unmap(ledger, 0x12000, 0x1000);  /* leaves a hole */
    ag_ledger_map(ledger, 0, 0x13000, 0x1000); /* another heap takes a part of the range */
    ag_ledger_map(ledger, 9, 0xfffff000, 0x1000);
    ag_ledger_map(ledger, 9, UINT64_MAX, 2); /* wraps around: it is ignored */
    assert_int_equal(ag_ledger_apply(ledger, 0, events, 4), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    const struct ag_heap_sum *heaps;
    assert_int_equal(ag_ledger_heap_sums(ledger, &heaps), 3);
    assert_int_equal(heaps[0].heap, 5);
    assert_int_equal(heaps[0].allocated_bytes, 30);
    assert_int_equal(heaps[0].allocated_blocks, 2);
    assert_int_equal(heaps[0].in_use_bytes, 20);
    assert_int_equal(heaps[0].peak_bytes, 30);
    assert_int_equal(heaps[0].mapped_bytes, 0x6000);
    assert_int_equal(heaps[1].heap, 0);
    assert_int_equal(heaps[1].in_use_bytes, 40);
    assert_int_equal(heaps[1].mapped_bytes, 0x1000);
    assert_int_equal(heaps[2].heap, 9);
    assert_int_equal(heaps[2].mapped_bytes, 0x1000);
    ag_ledger_free(ledger);
}

static void mapped_bytes_equal_a_page_by_page_reference(void **state) {
    (void)state;
    enum { PAGES = 512 };
    for (uint32_t round = 0; round < 20; round++) {
        random_state = round;
        uint8_t page[PAGES] = {0};
        struct ag_ledger *ledger = ag_ledger_new();
        for (uint32_t i = 0; i < 4000; i++) {
            const uint32_t at = random_below(PAGES), n = 1 + random_below(PAGES - at),
                           owner = random_below(4);
            const uint32_t length = n < 40 ? n : 1 + n % 40;
            memset(&page[at], (int)owner, length);
            if (owner == 0) {
                ag_ledger_unmap(ledger, at * 4096u, length * 4096u);
            } else {
                ag_ledger_map(ledger, owner, at * 4096u, length * 4096u);
            }
        }
        assert_int_equal(ag_ledger_close(ledger), 0);
        uint64_t want[4] = {0}, got[4] = {0};
        for (uint32_t i = 0; i < PAGES; i++) {
            want[page[i]] += 4096;
        }
        const struct ag_heap_sum *heaps;
        const size_t n = ag_ledger_heap_sums(ledger, &heaps);
        for (size_t i = 0; i < n; i++) {
            got[heaps[i].heap] = heaps[i].mapped_bytes;
        }
        for (uint32_t i = 1; i < 4; i++) {
            assert_int_equal(got[i], want[i]);
        }
        ag_ledger_free(ledger);
    }
}

static void the_timeline_stays_small_and_keeps_the_peak(void **state) {
    (void)state;
    random_state = 5;
    struct ag_ledger *ledger = ag_ledger_new();
    uint64_t time_ns = 0, live = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        time_ns += 1 + random_below(100000);
        const bool is_alloc = live == 0 || random_below(2);
        const struct ag_event events[] = {
            {.kind = AG_RECORD_STAMP, .size = time_ns},
            {.kind = is_alloc ? AG_RECORD_ALLOC : AG_RECORD_FREE,
             .address = is_alloc ? ++live : live--,
             .size = 1},
        };
        assert_int_equal(ag_ledger_apply(ledger, 0, events, 2), 0);
    }
    ag_ledger_resident(ledger, time_ns + 5, 12345);
    assert_int_equal(ag_ledger_close(ledger), 0);
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    const struct ag_timeline_point *points;
    const size_t n = ag_ledger_timeline(ledger, &points);
    assert_in_range(n, 1000, 4096);
    bool has_peak = false;
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || points[i - 1].time_ns <= points[i].time_ns);
        assert_true(points[i].in_use_bytes <= summary->peak_bytes);
        has_peak |= points[i].in_use_bytes == summary->peak_bytes &&
                    points[i].time_ns == summary->peak_time_ns;
    }
    assert_true(has_peak);
    assert_int_equal(points[n - 1].time_ns, summary->duration_ns);
    assert_int_equal(points[n - 1].in_use_bytes, live);
    assert_int_equal(points[n - 1].rss_bytes, 12345);
    ag_ledger_free(ledger);
}

/* Checks that neither time nor allocated bytes fall along the timeline, and that the peak is on it.
 */
static void assert_course_grows_to(const struct ag_ledger *ledger, uint64_t peak_bytes) {
    const struct ag_timeline_point *points;
    const size_t n = ag_ledger_timeline(ledger, &points);
    bool has_peak = false;
    for (size_t i = 0; i < n; i++) {
        has_peak |= points[i].in_use_bytes == peak_bytes;
        if (i > 0) {
            assert_true(points[i - 1].time_ns <= points[i].time_ns);
            assert_true(points[i - 1].allocated_bytes <= points[i].allocated_bytes);
        }
    }
    assert_true(has_peak);
}

/* The events of one thread that lead to the peak reach the ledger after later events of other
 * threads. */
static void a_peak_counted_late_is_at_its_time_on_the_timeline(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    const struct ag_event first[] = {{.kind = AG_RECORD_STAMP, .size = 10},
                                     {.kind = AG_RECORD_ALLOC, .address = 1, .size = 1000}};
    const struct ag_event early[] = {{.kind = AG_RECORD_STAMP, .size = 12}};
    const struct ag_event later[] = {{.kind = AG_RECORD_STAMP, .size = 50000}};
    const struct ag_event late[] = {{.kind = AG_RECORD_ALLOC, .address = 2, .size = 50},
                                    {.kind = AG_RECORD_FREE, .address = 2}};
    assert_int_equal(ag_ledger_apply(ledger, 0, first, 2), 0);
    assert_int_equal(ag_ledger_apply(ledger, 1, early, 1), 0);
    assert_int_equal(ag_ledger_apply(ledger, 0, later, 1), 0);
    assert_int_equal(ag_ledger_apply(ledger, 1, late, 2), 0);
    ag_ledger_reach(ledger, 90000);
    assert_int_equal(ag_ledger_close(ledger), 0);
    assert_int_equal(ag_ledger_summary(ledger)->peak_bytes, 1050);
    assert_course_grows_to(ledger, 1050);
    ag_ledger_free(ledger);
}

/* The resident size has the same time as the peak, but was measured after the peak, when more had
 * been allocated. */
static void a_peak_precedes_a_later_point_of_the_same_time(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    const struct ag_event events[] = {{.kind = AG_RECORD_STAMP, .size = 10},
                                      {.kind = AG_RECORD_ALLOC, .address = 1, .size = 1000},
                                      {.kind = AG_RECORD_FREE, .address = 1},
                                      {.kind = AG_RECORD_ALLOC, .address = 2, .size = 50}};
    assert_int_equal(ag_ledger_apply(ledger, 0, events, 4), 0);
    ag_ledger_resident(ledger, 10, 4096);
    ag_ledger_reach(ledger, 90000);
    assert_int_equal(ag_ledger_close(ledger), 0);
    assert_course_grows_to(ledger, 1000);
    ag_ledger_free(ledger);
}

/* The moment with the most bytes in use from FROM_NS until TO_NS, with its resident size. */
static struct ag_timeline_point highest_between(const struct ag_ledger *ledger, uint64_t from_ns,
                                                uint64_t to_ns) {
    const struct ag_timeline_point *points;
    const size_t n = ag_ledger_timeline(ledger, &points);
    struct ag_timeline_point highest = {.in_use_bytes = UINT64_MAX};
    for (size_t i = 0; i < n; i++) {
        if (points[i].time_ns >= from_ns && points[i].time_ns <= to_ns &&
            (highest.in_use_bytes == UINT64_MAX ||
             points[i].in_use_bytes >= highest.in_use_bytes)) {
            highest = points[i];
        }
    }
    return highest;
}

/* The writer (the process that uses the ledger) gets the three events of a thread, which span 2.5
 * seconds, only at the end. Before that, the writer has measured the resident size a hundred
 * thousand times, by its own clock. */
static void events_that_arrive_late_are_at_their_time_on_the_timeline(void **state) {
    (void)state;
    const uint64_t ms = 1000000;
    struct ag_ledger *ledger = ag_ledger_new();
    for (uint64_t i = 1; i <= 100000; i++) {
        ag_ledger_resident(ledger, i * ms * 3 / 100, i == 70000 ? 9000 : 4000 + i / 100);
    }
    const struct ag_event events[] = {
        {.kind = AG_RECORD_STAMP, .size = 10 * ms},
        {.kind = AG_RECORD_ALLOC, .address = 1, .size = 1000},
        {.kind = AG_RECORD_STAMP, .size = 1500 * ms},
        {.kind = AG_RECORD_ALLOC, .address = 2, .size = 50},
        {.kind = AG_RECORD_STAMP, .size = 2500 * ms},
        {.kind = AG_RECORD_FREE, .address = 1},
    };
    assert_int_equal(ag_ledger_apply(ledger, 0, events, 6), 0);
    ag_ledger_reach(ledger, 3000 * ms);
    assert_int_equal(ag_ledger_close(ledger), 0);
    assert_int_equal(highest_between(ledger, 0, 9 * ms).in_use_bytes, 0);
    for (uint64_t at = 10; at < 1490; at += 10) {
        assert_int_equal(highest_between(ledger, at * ms, (at + 9) * ms).in_use_bytes, 1000);
    }
    for (uint64_t at = 1500; at < 2490; at += 10) {
        assert_int_equal(highest_between(ledger, at * ms, (at + 9) * ms).in_use_bytes, 1050);
    }
    for (uint64_t at = 2510; at < 2990; at += 10) {
        assert_int_equal(highest_between(ledger, at * ms, (at + 9) * ms).in_use_bytes, 50);
    }
    assert_int_equal(ag_ledger_summary(ledger)->rss_peak_bytes, 9000);
    assert_course_grows_to(ledger, 1050);
    ag_ledger_free(ledger);
}

/* A hundred thousand resident sizes wait for events. The ledger drops some of them: it keeps the
 * highest of neighboring sizes, and leaves no long gap. */
static void the_highest_waiting_resident_sizes_are_kept(void **state) {
    (void)state;
    struct ag_residents residents = {0};
    for (uint64_t i = 1; i <= 100000; i++) {
        const struct ag_resident one = {.time_ns = i, .bytes = i == 70000 ? 9000 : i % 16};
        assert_int_equal(ag_residents_add(&residents, &one), 0);
    }
    struct ag_resident taken;
    uint64_t last_ns = 0, highest_ns = 0;
    size_t n = 0;
    while (ag_residents_take(&residents, 100000, &taken)) {
        assert_in_range(taken.time_ns, last_ns + 1, last_ns + 64);
        assert_true(taken.bytes >= 15 || taken.time_ns > 99968);
        highest_ns = taken.bytes == 9000 ? taken.time_ns : highest_ns;
        last_ns = taken.time_ns;
        n++;
    }
    assert_int_equal(highest_ns, 70000);
    assert_in_range(n, 2048, 4096);
    assert_int_equal(ag_residents_add(&residents, &(struct ag_resident){.time_ns = 7}), 0);
    assert_false(ag_residents_take(&residents, 6, &taken));
    assert_true(ag_residents_take(&residents, 7, &taken));
    ag_residents_done(&residents);
}

struct seen {
    size_t n_open, n_closed;
    struct ag_block last_closed, last_open;
};

static void see_block(void *context, const struct ag_block *block) {
    struct seen *seen = context;
    if (block->freed_ns == UINT64_MAX) {
        seen->last_open = *block;
        seen->n_open++;
    } else {
        seen->last_closed = *block;
        seen->n_closed++;
    }
}

static void blocks_are_shown_with_their_life_but_not_a_failed_realloc(void **state) {
    (void)state;
    const struct ag_event first[] = {
        {.kind = AG_RECORD_STAMP, .size = 10},
        {.kind = AG_RECORD_ALLOC, .address = 1, .size = 100, .stack = 1},
        {.kind = AG_RECORD_ALLOC, .address = 2, .size = 200, .stack = 2, .via = 4},
        {.kind = AG_RECORD_STAMP, .size = 20},
        {.kind = AG_RECORD_REALLOC_FREE, .address = 1},
    };
    const struct ag_event second[] = {
        {.kind = AG_RECORD_UNDO_FREE, .address = 1},
        {.kind = AG_RECORD_STAMP, .size = 30},
        {.kind = AG_RECORD_FREE, .address = 2},
    };
    struct seen seen = {0};
    struct ag_ledger *ledger = ag_ledger_new();
    assert_int_equal(ag_ledger_on_block(ledger, see_block, &seen), 0);
    assert_int_equal(ag_ledger_apply(ledger, 3, first, 5), 0);
    assert_int_equal(ag_ledger_apply(ledger, 3, second, 3), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    assert_int_equal(seen.n_closed, 1);
    assert_int_equal(seen.last_closed.address, 2);
    assert_int_equal(seen.last_closed.size, 200);
    assert_int_equal(seen.last_closed.via, 4);
    assert_int_equal(seen.last_closed.allocated_ns, 10);
    assert_int_equal(seen.last_closed.freed_ns, 30);
    assert_int_equal(seen.last_closed.allocated_by, 3);
    assert_int_equal(seen.last_closed.freed_by, 3);
    assert_int_equal(seen.n_open, 1);
    assert_int_equal(seen.last_open.address, 1);
    assert_int_equal(seen.last_open.allocated_ns, 10);
    ag_ledger_free(ledger);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_streams_equal_the_reference),
        cmocka_unit_test(many_blocks_grow_and_empty_the_table),
        cmocka_unit_test(the_latest_of_equal_peaks_counts),
        cmocka_unit_test(an_alloc_of_a_live_address_ends_the_block_whose_free_was_lost),
        cmocka_unit_test(a_time_window_counts_what_happens_inside),
        cmocka_unit_test(a_waiting_alloc_counts_in_the_window_for_thread_and_total),
        cmocka_unit_test(a_waiting_free_counts_in_the_window_for_total_and_block),
        cmocka_unit_test(heaps_are_sums_of_their_vias_and_ranges),
        cmocka_unit_test(mapped_bytes_equal_a_page_by_page_reference),
        cmocka_unit_test(the_timeline_stays_small_and_keeps_the_peak),
        cmocka_unit_test(events_that_arrive_late_are_at_their_time_on_the_timeline),
        cmocka_unit_test(the_highest_waiting_resident_sizes_are_kept),
        cmocka_unit_test(a_peak_counted_late_is_at_its_time_on_the_timeline),
        cmocka_unit_test(a_peak_precedes_a_later_point_of_the_same_time),
        cmocka_unit_test(blocks_are_shown_with_their_life_but_not_a_failed_realloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
