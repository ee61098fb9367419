/* finding_evidence.c: what only the events can tell of a line: how what it has in use went up and
 * down, when what is left at the end was made, how large its blocks are, how they grow when they
 * are reallocated, and who frees them.
 *
 * 1. The way of a trace is cut into slices of equally many births, not of time: a program that does
 * the same twice is found the same twice, and one that sleeps has no slices without events. When
 * each slice ended is kept beside it. The slice in which a block was made is told by its number
 * among those of its thread: each thread's number at the end of each slice is kept, so that no
 * table of live blocks is needed beside the ledger's.
 *
 * 2. Steps of the ledger that are taken back again (a realloc that failed, two threads that raced)
 * are counted the other way round: sums come out right, and no rule looks at a single block.
 *
 * 3. A reallocation is a death and, as the next step, the birth of what it became. One that makes
 * its block larger by as much as the one before it did is a link of a chain. Chains are followed by
 * address in a table of fixed size, where a younger one pushes an older one out: a program that
 * enlarges thousands of blocks in turn is not followed, one that enlarges some is.
 *
 * 4. Frees of blocks that were never seen allocated are known again by address in such a table,
 * too; which stack frees most of them is found by the vote of Boyer and Moore. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/finding_search.h"
#include "model/pass/step_rows.h"
#include "table/array.h"

enum { CHAINS = 4096, GHOSTS = 1 << 14 }; /* powers of two; 128 KiB each */

struct chain { /* of a block that was reallocated: what it is now, and how it came to it */
    uint64_t address, size, step_bytes, length;
};
struct evidence_pass {
    struct ag_finding_search *search;
    struct ag_step_rows rows;
    bool *row_reallocates;
    uint64_t births, slice_births; /* so far; when the slice ends */
    size_t slice;
    struct thread {
        uint64_t serial;                         /* of the newest block */
        uint64_t slice_serial[AG_COURSE_SLICES]; /* when each slice ended */
    } * threads;
    size_t n_threads;
    uint64_t dead_address, dead_size; /* the last step, if it was a death */
    bool has_dead;
    struct chain chains[CHAINS];
    uint64_t ghosts[GHOSTS]; /* their addresses; 0: none */
    uint64_t ghost_votes;
};

/* ---- rows ---- */

bool ag_finding_is_realloc(const struct ag_stack_row *row) {
    return row->via_name && strstr(row->via_name, "realloc");
}

static int index_rows(struct evidence_pass *pass) {
    const struct ag_profile *profile = pass->search->profile;
    pass->row_reallocates = calloc(profile->n_rows + 1, sizeof(*pass->row_reallocates));
    if (!pass->row_reallocates) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        pass->row_reallocates[i] = ag_finding_is_realloc(&profile->rows[i]);
    }
    return ag_step_rows_init(&pass->rows, profile);
}

/* ---- slices ---- */

/* The slice in which a block was made; the result is the same in every later slice. */
static size_t slice_of(const struct evidence_pass *pass, const struct ag_step *step) {
    const struct thread *thread = &pass->threads[step->thread];
    size_t low = 0, high = pass->slice; /* slices before LOW ended before it */
    if (high > 0 && step->serial > thread->slice_serial[high - 1]) {
        return high;
    }
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (step->serial > thread->slice_serial[middle]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void end_slice(struct evidence_pass *pass, uint64_t time_ns) {
    struct ag_finding_search *search = pass->search;
    for (size_t i = 0; i < search->n_blamed_lines; i++) {
        struct ag_line_evidence *evidence = &search->evidence[i];
        evidence->course_bytes[pass->slice] = evidence->in_use_bytes;
    }
    for (size_t i = 0; i < pass->n_threads; i++) {
        pass->threads[i].slice_serial[pass->slice] = pass->threads[i].serial;
    }
    search->slice_ns[pass->slice++] = time_ns;
}

/* The last slice does not end with the last birth: what is in use at the end is its result. */
static void end_slices(struct evidence_pass *pass, uint64_t time_ns) {
    const unsigned __int128 all = pass->search->whole->allocated_blocks;
    while (pass->births >= pass->slice_births && pass->slice < AG_COURSE_SLICES - 1) {
        end_slice(pass, time_ns);
        pass->slice_births = (uint64_t)(all * (pass->slice + 1) / AG_COURSE_SLICES);
    }
}

/* ---- at a birth ---- */

static void count_size(struct ag_line_evidence *evidence, uint64_t size) {
    size_t class = 0;
    for (uint64_t rest = size >> 3; rest > 0 && class < AG_SIZE_CLASSES - 1; rest >>= 3) {
        class ++;
    }
    evidence->class_blocks[class]++;
    evidence->class_bytes[class] += size;
    evidence->largest_bytes = size > evidence->largest_bytes ? size : evidence->largest_bytes;
}

static struct chain *chain_at(struct evidence_pass *pass, uint64_t address) {
    return &pass->chains[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 52 & (CHAINS - 1)];
}

static void count_enlarged(struct evidence_pass *pass, struct ag_line_evidence *evidence,
                           const struct ag_step *born) {
    struct chain *before = chain_at(pass, pass->dead_address);
    struct chain chain = {.address = born->address,
                          .size = born->size,
                          .step_bytes = born->size - pass->dead_size,
                          .length = 1};
    if (before->address == pass->dead_address && before->size == pass->dead_size &&
        before->step_bytes == chain.step_bytes) {
        chain.length = before->length + 1;
        before->address = 0;
    }
    *chain_at(pass, born->address) = chain;
    evidence->enlarged_blocks++;
    evidence->enlarged_bytes += born->size;
    evidence->stepped_blocks += chain.length > 1;
    if (chain.length > evidence->longest_chain) {
        evidence->longest_chain = chain.length;
        evidence->step_bytes = chain.step_bytes;
    }
    if (born->size > evidence->largest_enlarged_bytes) {
        evidence->largest_enlarged_bytes = born->size;
    }
}

static void count_birth(struct evidence_pass *pass, uint32_t row, const struct ag_step *step) {
    struct ag_finding_search *search = pass->search;
    struct ag_line_evidence *evidence = &search->evidence[search->profile->line_of_row[row]];
    count_size(evidence, step->size);
    if (pass->has_dead && step->size > pass->dead_size && pass->row_reallocates[row]) {
        count_enlarged(pass, evidence, step);
    }
}

/* ---- the pass ---- */

static int make_step_room(struct evidence_pass *pass, const struct ag_step *step) {
    const int r = AG_ARRAY_EXTEND(pass->rows.of_sum, pass->rows.n_sums, step->sum + (size_t)1);
    return r < 0 ? r : AG_ARRAY_EXTEND(pass->threads, pass->n_threads, step->thread + (size_t)1);
}

static int count_step(void *context, const struct ag_step *step) {
    struct evidence_pass *pass = context;
    struct ag_finding_search *search = pass->search;
    if (AG_UNLIKELY(step->sum >= pass->rows.n_sums || step->thread >= pass->n_threads) &&
        make_step_room(pass, step) < 0) {
        return -ENOMEM;
    }
    const uint32_t row = ag_step_rows_of(&pass->rows, step);
    const bool is_more = step->kind == AG_STEP_BIRTH || step->kind == AG_STEP_DEATH_UNDONE;
    if (row != UINT32_MAX) {
        struct ag_line_evidence *evidence = &search->evidence[search->profile->line_of_row[row]];
        const uint64_t bytes = is_more ? step->size : 0 - step->size;
        evidence->in_use_bytes += bytes;
        evidence->left_bytes[slice_of(pass, step)] += bytes;
    }
    if (step->kind == AG_STEP_BIRTH) {
        if (row != UINT32_MAX) {
            count_birth(pass, row, step);
        }
        pass->threads[step->thread].serial = step->serial;
        pass->births++;
        if (pass->births >= pass->slice_births) {
            const uint64_t start_ns = search->profile->definitions.start_ns;
            end_slices(pass, step->time_ns > start_ns ? step->time_ns - start_ns : 0);
        }
    }
    pass->has_dead = step->kind == AG_STEP_DEATH;
    pass->dead_address = step->address;
    pass->dead_size = step->size;
    return 0;
}

static void count_block(void *context, const struct ag_block *block) {
    struct evidence_pass *pass = context;
    const struct ag_model_heap *heap =
        ag_definitions_heap_of_via(&pass->search->profile->definitions, block->via);
    if (block->freed_by == UINT32_MAX || block->freed_by == block->allocated_by ||
        (heap && strcmp(heap->kind, "malloc") != 0)) {
        return;
    }
    const uint32_t row = ag_step_rows_find(&pass->rows, block->stack, block->via);
    if (row != AG_INDEX_NONE) {
        pass->search->evidence[pass->search->profile->line_of_row[row]].foreign_blocks++;
    }
}

static void count_ghost(void *context, const struct ag_ghost *ghost, bool is_taken_back) {
    struct evidence_pass *pass = context;
    struct ag_finding_search *search = pass->search;
    uint64_t *known =
        &pass->ghosts[(ghost->address * UINT64_C(0x9e3779b97f4a7c15)) >> 50 & (GHOSTS - 1)];
    if (is_taken_back) { /* two threads that raced: its allocation was seen after all */
        *known = *known == ghost->address ? 0 : *known;
        return;
    }
    if (*known != ghost->address) {
        *known = ghost->address;
        return;
    }
    search->repeated_ghosts++;
    if (ghost->free_stack == search->ghost_stack) {
        pass->ghost_votes++;
    } else if (pass->ghost_votes == 0) {
        search->ghost_stack = ghost->free_stack;
        pass->ghost_votes = 1;
    } else {
        pass->ghost_votes--;
    }
}

static int evidence_run(struct evidence_pass *pass) {
    struct ag_finding_search *search = pass->search;
    struct ag_profile *profile = search->profile;
    struct ag_pass_options options = profile->pass;
    options.visit_block = search->watches_threads ? count_block : NULL;
    options.visit_ghost = count_ghost;
    options.visit_context = pass;
    struct ag_ledger *ledger = ag_ledger_new();
    int r = ledger ? index_rows(pass) : -ENOMEM;
    r = r < 0 ? r : ag_ledger_on_step(ledger, count_step, pass);
    r = r < 0 ? r : ag_event_pass(profile->file, &profile->definitions, &options, ledger);
    search->buried_blocks = r == 0 ? ag_ledger_buried_blocks(ledger) : 0;
    (void)ag_ledger_free(ledger);
    while (pass->slice < AG_COURSE_SLICES) { /* repairs may have taken births back */
        end_slice(pass, search->whole->duration_ns);
    }
    return r;
}

int ag_finding_read_events(struct ag_finding_search *search) {
    struct evidence_pass *pass = calloc(1, sizeof(*pass));
    search->evidence = calloc(search->n_blamed_lines + 1, sizeof(*search->evidence));
    int r = pass && search->evidence ? 0 : -ENOMEM;
    if (r == 0) {
        pass->search = search;
        pass->slice_births = search->whole->allocated_blocks / AG_COURSE_SLICES;
        r = evidence_run(pass);
        ag_step_rows_done(&pass->rows);
        free(pass->row_reallocates);
        free(pass->threads);
    }
    free(pass);
    return r;
}
