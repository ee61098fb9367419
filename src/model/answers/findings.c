/* findings.c: the rules that decide which facts of a profile the summary suggests to examine
 * (findings). The rules apply to blamed lines, which blamed_lines.h defines.
 *
 * 1. Evidence. Every profile contains the sums of each line, the pairs of threads (one allocates,
 * the other frees) and the timeline of the whole process. Only the events show how the memory of a
 * single line grew, how large its blocks are, and by how much reallocations enlarge them. The
 * events are read if their number is at most EVENTS_MOST, or if the caller requests it. Without the
 * events, the rules unseen, resident, steps, outsized and growth find nothing, and a growing leak
 * is found only if the timeline of the process proves it (section 4). If events were lost, the file
 * is damaged, or a time window (--from, --to) or a filter is set, some rules have no evidence: see
 * knows_leaks, knows_peak, knows_unseen and find_foreign_frees.
 *
 * 2. Every rule has two limits. A finding below the least number would matter to no program: for
 * example, a program that allocates a hundred blocks has no storm of temporary blocks. A finding
 * below the least share of the whole would not matter to the profiled program.
 *
 *    rule      least number                   least share
 *    mapped    32 MiB                         half of the resident memory
 *    leak      100 blocks and 16 KiB, or      10 % of the bytes or blocks left at the end
 *              24 blocks and 2 MiB
 *    resident  16 MiB                         50 % of the resident memory
 *    steps     100 reallocations of a block   5 % of all bytes, or 1000 reallocations of a block
 *    outsized  1 MiB, 64 times the others     10 % of the peak
 *    storm     10000 blocks, 1000 a second    20 % of all blocks
 *    foreign   1000 blocks                    20 % of all freed blocks
 *    peak      2 MiB                          40 % of the peak
 *    growth    100 blocks and 256 KiB         40 % of the bytes in use before the exit
 *    unseen    1000 repeated ghosts           5 % of all frees
 *    unseen    1000 buried blocks             5 % of all freed blocks
 *
 * The reasons for the numbers. Leak: many programs make a few small blocks at the start and
 * deliberately never free them; 24 large blocks are left at the end if the program leaks 3 in each
 * eighth of the recording. Steps: a block of 16 bytes that is doubled until memory is full needs
 * about 30 reallocations, so a program that reallocates a block 100 times does not double it.
 * Outsized: section 5. Storm (of temporary blocks): 10000 pairs of malloc and free take half a
 * millisecond, at 50 ns each; a program that avoids fewer pairs is not measurably faster. Foreign
 * (blocks that a thread frees for another): threads pass each other tens of blocks when they start
 * and end. Blocks that a garbage collector found dead do not count. Peak: an empty C program uses 2
 * MiB. A data structure usually has at least two lines, of its elements and of the table that
 * refers to them. So if a program keeps the same data twice, which doubles the peak, the largest
 * line has less than half of the peak; 40 % also finds such a line. Unseen: see
 * section 7.
 *
 * Resident: by default malloc keeps some free memory for the next blocks (up to twice
 * M_MMAP_THRESHOLD, and 128 KiB per arena), so less than 16 MiB is no finding. If less than half of
 * the resident memory is free, other causes of the program's size matter more.
 *
 * The limits were tested on programs with one deliberate fault and with none (such as
 * tests/programs/libc/faults.c), and on jq, sqlite3, python3, git and a C compiler.
 *
 * The rule "mapped" is that of program_mappings.c, and concerns the whole process, not a line of
 * blocks. It needs no exact counts of blocks, so it also applies to sampled traces.
 *
 * 3. A leak that grows. Blocks in use at the end (called "left") need not be a leak: the blocks of
 * a cache that is built at the start and kept are left, too. A leak grows little by little until
 * the end. So the left blocks are classified by the time when they were allocated ("made"). A line
 * leaks if it meets three conditions:
 *
 * Condition 1: left blocks were made during a long time. The first left block was made at least an
 * eighth of the recording before the end. The time from that block to the end is divided into
 * quarters, and in each quarter at least 5 % of the left bytes were made.
 *
 * Condition 2: the memory of the line grows. Code that keeps only the newest blocks (a ring, a
 * cache of a fixed size) meets condition 1, too, but its memory does not grow. So the bytes that
 * the line has in use must rise, after the first left block, by half of the left bytes.
 *
 * Condition 3: the line still grows in the last quarter. Conditions 1 and 2 measure time by the
 * number of blocks that the program made, because the clock time that a program needs depends on
 * the machine. By this measure, a cache looks like a leak if the program builds it and later only
 * computes or waits, without making blocks. And a cache with a bound looks like a leak if it needs
 * most of the recording to become full, and then replaces only some of its blocks. So condition 3
 * has two requirements on the last quarter, which begins at the later of two moments: when three
 * quarters of the blocks of the period were made, and when three quarters of its clock time have
 * passed. In the last quarter, 5 % of the left bytes must be made, and the line's bytes in use must
 * rise by 5 % of the left bytes above their earlier maximum. The maximum in the last quarter is
 * compared, not the value at the end, because many programs free a part of their memory at exit. A
 * leak in bursts meets the conditions if the last burst is in the last quarter. Profilers of Java
 * measure leaks in the same way: a class leaks if its instances have more and more ages ("surviving
 * generations") until the end; the instances of a cache that is built once do not.
 *
 * The recording may end later than the program: on a loaded machine, the writer noticed the
 * program's end more than a second late. So the program is assumed to have run for the largest of
 * four times: the time of the last but one sample of its resident memory, the duration of the
 * recording less CLOCK_LATE_NS, a quarter of this duration, and the CPU time that the program used.
 * Only the CPU time is used if the recording is shorter than CLOCK_LEAST_NS. The CPU time is not
 * used if it is less than CPU_LEAST_NS, which is ten ticks of the kernel's clock.
 *
 * Blocks in collected heaps are in use until a collection finds them dead. So for a line whose
 * bytes in use mostly belong to collected heaps, only those blocks count that were made before the
 * last collection of these heaps began, and the recording is assumed to end at that time. In
 * addition, 5 % of all left bytes must be made in the last quarter of the whole recording. The
 * maximum of the bytes in use is not compared, because it includes garbage. Minor collections do
 * not count, because they do not examine old blocks. A heap is collected if its kind is that of a
 * collector, if the trace has collections of its runtime, or if its runtime counts its allocations
 * itself.
 *
 * Many programs free all their memory before they end: destructors of global objects in C++, an
 * interpreter that closes its state. So the same conditions are also applied to the blocks that
 * were in use when the program made its last block ("growth"). A program that builds a structure
 * until its end and then frees it meets the conditions, too. So the finding is not called a leak,
 * its limits are higher, and it comes last. A line is left out if its left blocks are three
 * quarters of all blocks that the program makes from the line's first left block to the end,
 * because the program then probably only builds a structure.
 *
 * 4. If the events are not read, growth can only be derived from the timeline of the process. A
 * line never has more bytes in use than the process. If the line has B bytes in use at the end, and
 * F is the least that the process had in use in the last quarter of the recording, then the line
 * grew by at least B - F in that quarter. This proves growth only for a line to which nearly all
 * bytes of the process belong. For a line in collected heaps it proves nothing.
 *
 * 5. Outsized blocks are far larger than the other blocks of the same line; the programmer probably
 * expects blocks of similar size there. Sizes are classified by powers of 8. Blocks are outsized if
 * they are above a gap of two empty classes, which is a factor of at least 64, and nine tenths of
 * the line's blocks are below the gap. Sizes that vary naturally leave no gap. The sizes of a block
 * that is doubled repeatedly leave no gap either.
 *
 * 6. A line has at most one finding. Rules are applied in the order of enum ag_finding_kind, and
 * the first that holds makes the finding. Otherwise one cause would lead to several findings:
 * growing leaks and outsized blocks are also part of the peak, and the blocks of steps are
 * temporary. The leaks of one function are merged into one finding; the storms of one function are
 * merged, too. If a line has a leak and calls functions that have leaks (such as an object and its
 * members), their leaks are merged with that of the line. A merged finding has the numbers of its
 * line alone and, in separate members, the sums over the other lines. The report shows the finding
 * with the largest share of each kind, then the second of each kind; the share includes the other
 * lines.
 *
 * 7. Unseen allocations and frees. A ghost is a free of a block without a recorded allocation. A
 * single ghost proves little: a process to which allogram was attached frees blocks that were made
 * before the recording, and in a forked child the first such free at an address counts as that of
 * an inherited block. But a second ghost at the same address (a repeated ghost) proves that between
 * the two frees a block was allocated at this address, by a function of the allocator that is not
 * recorded. (Or the recording was paused, as the text of the finding says.) Conversely, a block may
 * be allocated at the address of a block in use. Then the older block (called buried) was freed by
 * code that is not recorded, such as copies of the program's own free function that the compiler
 * inlined into its callers. Repeated ghosts and buried blocks are counted in the pass over the
 * events. */
#include "model/answers/findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "model/answers/program_mappings.h"
#include "model/answers/resident_parts.h"
#include "model/pass/step_rows.h"
#include "model/profile_state.h"
#include "table/array.h"

enum {
    /* the recording is divided into this many slices; equally many blocks are made in each */
    COURSE_SLICES = 32,
    /* class 0: 0 to 7 bytes, 1: 8 to 63, 2: 64 to 511 ...; the last: all larger ones */
    SIZE_CLASSES = 17,
};
#define NOT_COLLECTED UINT64_MAX
struct line_evidence {
    uint64_t in_use_bytes;
    uint64_t course_bytes[COURSE_SLICES]; /* in use at the end of each slice */
    /* blocks and bytes made in each slice and still in use at the end */
    uint64_t left_blocks[COURSE_SLICES], left_bytes[COURSE_SLICES];
    uint64_t class_blocks[SIZE_CLASSES], class_bytes[SIZE_CLASSES];
    uint64_t largest_bytes;
    /* Reallocations that enlarged a block. stepped_blocks: those that enlarged it by as many bytes
     * as the previous one did. */
    uint64_t enlarged_blocks, enlarged_bytes, stepped_blocks;
    /* number of reallocations in the longest chain (section 3 of "evidence" below), and by how many
     * bytes each enlarged the block */
    uint64_t longest_chain, step_bytes;
    uint64_t largest_enlarged_bytes;
    /* blocks that were freed by another thread than the one that allocated them */
    uint64_t foreign_blocks;
    struct freed_late *freed_late; /* NULL: no block was freed at exit */
};
/* The blocks of a line that were freed after the program had made (nearly) its last block: in all,
 * and by the slice in which they were made. */
struct freed_late {
    uint64_t all_blocks, all_bytes;
    uint64_t blocks[COURSE_SLICES], bytes[COURSE_SLICES];
};
struct search {
    struct ag_profile *profile;
    const struct ag_summary *whole; /* sums of the whole trace, without filters */
    const struct ag_blamed_line *blamed_lines;
    size_t n_blamed_lines;
    bool *is_taken; /* by blamed line: whether the line already has a finding */
    /* whether threads free many blocks of other threads, so foreign_blocks must be counted */
    bool watches_threads;
    /* one for each blamed line; NULL: the events were not read */
    struct line_evidence *evidence;
    uint64_t slice_ns[COURSE_SLICES]; /* end of each slice, since the start of the recording */
    /* By blamed line: when the last collection began that could have freed the line's blocks, since
     * the start of the recording. NOT_COLLECTED: the line's blocks are not in collected heaps. 0:
     * there was no collection. */
    uint64_t *collected_ns;
    /* Ghosts (frees without a recorded allocation) at an address that had a ghost before.
     * ghost_stack: the stack of most of these frees; 0: the stacks of frees are not recorded. */
    uint64_t repeated_ghosts;
    uint64_t freed_late_bytes; /* of all lines */
    uint64_t buried_blocks;    /* blocks whose address was allocated again while they were in use */
    uint32_t ghost_stack;
};

static uint64_t subtract_or_0(uint64_t from, uint64_t what) {
    return from > what ? from - what : 0;
}

/* ---- evidence ---- */

/* The functions up to search_read_events read from the events what no sum contains: how the memory
 * of each line changed over time, when the blocks left at the end were made, how large blocks are,
 * how they grow when they are reallocated, and which threads free them.
 *
 * 1. The recording is divided into slices with equally many allocations instead of equal time, so
 * that two runs of the same program have equal slices, and a program that sleeps has no empty
 * slices. The end time of each slice is kept. The ledger (the code that computes sums from the
 * events) numbers the blocks of each thread (serial). At the end of each slice the last number of
 * each thread is kept, so the slice in which a block was made follows from the number of the block.
 * No table of live blocks is needed besides the ledger's.
 *
 * 2. The ledger may undo a step (after a failed realloc, when two threads raced, or when the type
 * of a block becomes known, and then it reports the birth again); the step is then subtracted from
 * the sums. So the sums and the counts are correct. Chains and the size of the largest block are
 * not corrected, but no rule depends on a single block.
 *
 * 3. The ledger reports a reallocation as two consecutive steps: the death of the old block and the
 * birth of the new one. Consecutive reallocations of one block that enlarge it by equally many
 * bytes form a chain. Chains are found by address in a hash table of fixed size, where a new chain
 * replaces an older one with the same hash. So chains are found if a program enlarges a few blocks
 * in turn, but not if it enlarges thousands of blocks in turn.
 *
 * 4. Ghosts at one address are counted with a hash table of fixed size, too. The stack that frees
 * most of them is found by the majority vote algorithm of Boyer and Moore. */

enum { CHAINS = 4096, GHOSTS = 1 << 14 }; /* powers of two; each table has 128 KiB */

/* Deaths count as deaths at exit when the program will make at most (all blocks) / LATE_PART +
 * LATE_BIRTHS more blocks. This number is not 0, because programs may make a few blocks while they
 * free their memory at exit. */
enum { LATE_BIRTHS = 16, LATE_PART = 1000 };

struct chain { /* a chain, with the block's address and size after the newest reallocation; length:
                * number of reallocations */
    uint64_t address, size, step_bytes, length;
};
struct evidence_pass {
    struct search *search;
    struct ag_step_rows rows;
    bool *row_reallocates;
    /* births: number of births so far. slice_births: number of births at which the current slice
     * ends */
    uint64_t births, slice_births;
    uint64_t last_births; /* number of births after which deaths count as deaths at exit */
    size_t slice;
    struct thread {
        uint64_t serial;                      /* number of the thread's newest block */
        uint64_t slice_serial[COURSE_SLICES]; /* `serial` at the end of each slice */
    } * threads;
    size_t n_threads;
    uint64_t dead_address, dead_size; /* address and size of the block of the last step, valid if
                                       * has_dead: the last step was a death */
    bool has_dead;
    struct chain chains[CHAINS];
    uint64_t ghosts[GHOSTS]; /* by hash: address of the newest ghost; 0: none */
    uint64_t ghost_votes;
};

/* ---- rows ---- */

static bool is_realloc_row(const struct ag_stack_row *row) {
    return row->via_name && strstr(row->via_name, "realloc");
}

static int index_rows(struct evidence_pass *pass) {
    const struct ag_profile *profile = pass->search->profile;
    pass->row_reallocates = calloc(profile->n_rows + 1, sizeof(*pass->row_reallocates));
    if (!pass->row_reallocates) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        pass->row_reallocates[i] = is_realloc_row(&profile->rows[i]);
    }
    return ag_step_rows_init(&pass->rows, profile);
}

/* ---- slices ---- */

/* The slice in which the block of STEP was made, by its serial number in its thread. */
static size_t slice_of(const struct evidence_pass *pass, const struct ag_step *step) {
    const struct thread *thread = &pass->threads[step->thread];
    size_t low = 0, high = pass->slice; /* slices before LOW ended before the block was made */
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
    struct search *search = pass->search;
    for (size_t i = 0; i < search->n_blamed_lines; i++) {
        struct line_evidence *evidence = &search->evidence[i];
        evidence->course_bytes[pass->slice] = evidence->in_use_bytes;
    }
    for (size_t i = 0; i < pass->n_threads; i++) {
        pass->threads[i].slice_serial[pass->slice] = pass->threads[i].serial;
    }
    search->slice_ns[pass->slice++] = time_ns;
}

/* Ends all slices that are complete after a birth, except the last slice, which ends after the last
 * event. */
static void end_slices(struct evidence_pass *pass, uint64_t time_ns) {
    const unsigned __int128 all = pass->search->whole->allocated_blocks;
    while (pass->births >= pass->slice_births && pass->slice < COURSE_SLICES - 1) {
        end_slice(pass, time_ns);
        pass->slice_births = (uint64_t)(all * (pass->slice + 1) / COURSE_SLICES);
    }
}

/* ---- at a birth ---- */

static size_t size_class(uint64_t size) {
    size_t class = 0;
    for (uint64_t rest = size >> 3; rest > 0 && class < SIZE_CLASSES - 1; rest >>= 3) {
        class ++;
    }
    return class;
}

static void count_size(struct line_evidence *evidence, uint64_t size) {
    const size_t class = size_class(size);
    evidence->class_blocks[class]++;
    evidence->class_bytes[class] += size;
    evidence->largest_bytes = size > evidence->largest_bytes ? size : evidence->largest_bytes;
}

static struct chain *chain_at(struct evidence_pass *pass, uint64_t address) {
    return &pass->chains[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 52 & (CHAINS - 1)];
}

static void count_enlarged(struct evidence_pass *pass, struct line_evidence *evidence,
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
    struct search *search = pass->search;
    struct line_evidence *evidence = &search->evidence[search->profile->line_of_row[row]];
    count_size(evidence, step->size);
    if (pass->has_dead && step->size > pass->dead_size && pass->row_reallocates[row]) {
        count_enlarged(pass, evidence, step);
    }
}

/* A birth that is undone because the type of the block became known is reported again, perhaps much
 * later and with the old serial number. If it counted twice, the slices would end too early. */
static void uncount_birth(struct evidence_pass *pass, uint32_t row, const struct ag_step *step) {
    struct search *search = pass->search;
    pass->births = subtract_or_0(pass->births, 1);
    if (row != UINT32_MAX) {
        struct line_evidence *evidence = &search->evidence[search->profile->line_of_row[row]];
        const size_t class = size_class(step->size);
        evidence->class_blocks[class] = subtract_or_0(evidence->class_blocks[class], 1);
        evidence->class_bytes[class] = subtract_or_0(evidence->class_bytes[class], step->size);
    }
}

/* ---- at a death ---- */

/* Counts the blocks that are freed at exit. A death that the ledger undoes is subtracted. */
static int count_freed_late(struct evidence_pass *pass, struct line_evidence *evidence,
                            const struct ag_step *step, size_t slice) {
    const bool is_undone = step->kind == AG_STEP_DEATH_UNDONE;
    if (pass->births < pass->last_births || (step->kind != AG_STEP_DEATH && !is_undone) ||
        (is_undone && !evidence->freed_late)) {
        return 0;
    }
    if (!evidence->freed_late) {
        evidence->freed_late = calloc(1, sizeof(*evidence->freed_late));
        if (!evidence->freed_late) {
            return -ENOMEM;
        }
    }
    struct freed_late *late = evidence->freed_late;
    const uint64_t blocks = is_undone ? UINT64_MAX : 1;
    const uint64_t bytes = is_undone ? 0 - step->size : step->size;
    late->all_blocks += blocks;
    late->all_bytes += bytes;
    late->blocks[slice] += blocks;
    late->bytes[slice] += bytes;
    pass->search->freed_late_bytes += bytes;
    return 0;
}

/* ---- the pass ---- */

static int make_step_room(struct evidence_pass *pass, const struct ag_step *step) {
    const int r = AG_ARRAY_EXTEND(pass->rows.of_sum, pass->rows.n_sums, step->sum + (size_t)1);
    return r < 0 ? r : AG_ARRAY_EXTEND(pass->threads, pass->n_threads, step->thread + (size_t)1);
}

static int count_step(void *context, const struct ag_step *step) {
    struct evidence_pass *pass = context;
    struct search *search = pass->search;
    if (AG_UNLIKELY(step->sum >= pass->rows.n_sums || step->thread >= pass->n_threads) &&
        make_step_room(pass, step) < 0) {
        return -ENOMEM;
    }
    const uint32_t row = ag_step_rows_of(&pass->rows, step);
    const bool is_more = step->kind == AG_STEP_BIRTH || step->kind == AG_STEP_DEATH_UNDONE;
    if (row != UINT32_MAX) {
        struct line_evidence *evidence = &search->evidence[search->profile->line_of_row[row]];
        const uint64_t bytes = is_more ? step->size : 0 - step->size;
        const size_t slice = slice_of(pass, step);
        evidence->in_use_bytes += bytes;
        evidence->left_blocks[slice] += is_more ? 1 : UINT64_MAX;
        evidence->left_bytes[slice] += bytes;
        if (count_freed_late(pass, evidence, step, slice) < 0) {
            return -ENOMEM;
        }
    }
    if (step->kind == AG_STEP_BIRTH) {
        if (row != UINT32_MAX) {
            count_birth(pass, row, step);
        }
        struct thread *thread = &pass->threads[step->thread];
        thread->serial = step->serial > thread->serial ? step->serial : thread->serial;
        pass->births++;
        if (pass->births >= pass->slice_births) {
            const uint64_t start_ns = search->profile->definitions.start_ns;
            end_slices(pass, step->time_ns > start_ns ? step->time_ns - start_ns : 0);
        }
    } else if (step->kind == AG_STEP_BIRTH_UNDONE) {
        uncount_birth(pass, row, step);
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
    struct search *search = pass->search;
    uint64_t *known =
        &pass->ghosts[(ghost->address * UINT64_C(0x9e3779b97f4a7c15)) >> 50 & (GHOSTS - 1)];
    if (is_taken_back) { /* two threads raced, and the ledger found the allocation later */
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
    struct search *search = pass->search;
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
    while (pass->slice < COURSE_SLICES) { /* the last slice; other slices have not ended either if
                                           * the ledger undid births */
        end_slice(pass, search->whole->duration_ns);
    }
    return r;
}

static int search_read_events(struct search *search) {
    struct evidence_pass *pass = calloc(1, sizeof(*pass));
    search->evidence = calloc(search->n_blamed_lines + 1, sizeof(*search->evidence));
    int r = pass && search->evidence ? 0 : -ENOMEM;
    if (r == 0) {
        pass->search = search;
        const uint64_t all = search->whole->allocated_blocks;
        pass->slice_births = all / COURSE_SLICES;
        pass->last_births = subtract_or_0(all, all / LATE_PART + LATE_BIRTHS);
        r = evidence_run(pass);
        ag_step_rows_done(&pass->rows);
        free(pass->row_reallocates);
        free(pass->threads);
    }
    free(pass);
    return r;
}

/* Reading EVENTS_MOST events takes a fifth of a second on the machine that
 * docs/explanation/overhead.md describes. */
#define EVENTS_MOST UINT64_C(4000000)
#define CLOCK_LEAST_NS UINT64_C(500000000)
#define CLOCK_LATE_NS UINT64_C(2000000000)
#define CPU_LEAST_NS UINT64_C(100000000)
#define SECOND_NS UINT64_C(1000000000)

enum {
    LEAK_SMALL_BLOCKS = 100,
    LEAK_SMALL_BYTES = 16 << 10,
    LEAK_LARGE_BLOCKS = 24,
    LEAK_LARGE_BYTES = 2 << 20,
    LEAK_PERCENT = 10,
    LATE_BLOCKS = 100, /* blocks that are freed at exit */
    LATE_BYTES = 256 << 10,
    LATE_PERCENT = 40,
    LATE_MOST_PERCENT = 75,
    /* least number of slices from the first left block to the end */
    LEAK_SLICES = COURSE_SLICES / 8,
    LEAK_RISE_PERCENT = 5, /* least percentage of the left bytes that was made in each quarter */
    /* a percentage of the left bytes. The first left block is in the slice in which the left bytes
     * made so far reach this percentage; earlier left blocks are ignored */
    LEAK_GROUND_PERCENT = 2,
    LEAK_GAIN_PERCENT = 50, /* a percentage of the left bytes: the bytes in use must rise by at
                             * least this */
    QUARTERS = 4,
    COURSE_LEAST_POINTS = 32, /* least number of points of the timeline, which has up to 4096 */
    STEPS = 100,
    STEPS_PERCENT = 5,
    STEPS_MANY = 1000,
    STEPS_SAME_PERCENT = 90, /* least percentage of stepped reallocations among those that enlarge a
                              * block of the line */
    OUTSIZED_BYTES = 1 << 20,
    OUTSIZED_PERCENT = 10,
    OUTSIZED_GAP = 2, /* least number of empty size classes */
    OUTSIZED_OTHERS = 10,
    OUTSIZED_OTHERS_PERCENT = 90,
    TEMPORARY_BLOCKS = 10000,
    TEMPORARY_A_SECOND = 1000,
    TEMPORARY_PERCENT = 20,
    FOREIGN_BLOCKS = 1000,
    FOREIGN_PERCENT = 20,
    PEAK_BYTES = 2 << 20,
    PEAK_PERCENT = 40,
    RESIDENT_FREE_BYTES = 16 << 20,
    RESIDENT_FREE_PERCENT = 50,
    UNSEEN_BLOCKS = 1000, /* repeated ghosts, or buried blocks */
    UNSEEN_PERCENT = 5,   /* percentage of all frees, or of all freed blocks */
    FOUND_MOST = 32,
    /* limits the memory for evidence to about 100 MiB; large programs have some thousand blamed
     * lines */
    BLAMED_LINES_MOST = 1 << 16,
};

static bool is_share(uint64_t part, unsigned percent, uint64_t whole) {
    return whole > 0 && (unsigned __int128)part * 100 >= (unsigned __int128)whole * percent;
}

static bool is_larger_share(const struct ag_finding *left, const struct ag_finding *right) {
    return (unsigned __int128)(left->part + left->merged_part) * right->whole >
           (unsigned __int128)(right->part + right->merged_part) * left->whole;
}

/* ---- whether a profile has evidence for a rule ---- */

static bool is_whole(const struct ag_profile *profile) {
    for (uint32_t cause = 0; ag_profile_lost_name(cause); cause++) {
        if (ag_profile_lost(profile, cause) > 0) {
            return false;
        }
    }
    return !profile->identity.is_damaged;
}

/* Blocks that are live when a window ends, or when recording stops before the process does, may
 * still be freed. */
static bool knows_leaks(const struct ag_profile *profile) {
    return is_whole(profile) && profile->n_parts == 0 && profile->options.to_ns == 0 &&
           (strcmp(profile->identity.end, "exit") == 0 ||
            strcmp(profile->identity.end, "signal") == 0);
}

/* If only blocks that were made in the time window are counted, their peak is not the peak of the
 * process. */
static bool knows_peak(const struct ag_profile *profile) {
    return !profile->has_window || profile->window.counts_older;
}

/* ---- leaks ---- */

static bool rises(uint64_t from, uint64_t to, uint64_t end) {
    return to > from && is_share(to - from, LEAK_RISE_PERCENT, end);
}

/* The time of the last but one sample of the resident memory. The program ran at that time, because
 * the last sample was measured later. The time of the last sample itself may be late: the writer
 * reads the clock after it has measured. 0: there is no such sample. */
static uint64_t last_sample_ns(const struct ag_definitions *definitions) {
    size_t n = definitions->n_samples;
    while (n > 0 && definitions->samples[n - 1].bytes == 0) {
        n--;
    }
    const uint64_t time_ns = n > 1 ? definitions->samples[n - 2].time_ns : 0;
    return time_ns > definitions->start_ns ? time_ns - definitions->start_ns : 0;
}

/* The least time for which the program ran, in nanoseconds (section 3 at the top of this file). 0:
 * unknown. */
static uint64_t end_ns_of(const struct search *search) {
    const uint64_t duration_ns = search->whole->duration_ns;
    const uint64_t sampled_ns = last_sample_ns(&search->profile->definitions);
    const uint64_t cpu_ns = ag_profile_cost(search->profile)->target_cpu_ns;
    uint64_t by_clock_ns = duration_ns >= CLOCK_LEAST_NS ? duration_ns / 4 : 0;
    if (duration_ns > CLOCK_LATE_NS && duration_ns - CLOCK_LATE_NS > by_clock_ns) {
        by_clock_ns = duration_ns - CLOCK_LATE_NS;
    }
    if (duration_ns >= CLOCK_LEAST_NS && sampled_ns > by_clock_ns) {
        by_clock_ns = sampled_ns < duration_ns ? sampled_ns : duration_ns;
    }
    const uint64_t by_cpu_ns = cpu_ns < CPU_LEAST_NS  ? 0
                               : cpu_ns < duration_ns ? cpu_ns
                                                      : duration_ns;
    return by_cpu_ns > by_clock_ns ? by_cpu_ns : by_clock_ns;
}

/* The first slice of the last quarter of a period, by the number of blocks and by the clock
 * (section 3 at the top of this file). FIRST: the first slice of the period. N: the slice after its
 * last one. */
static size_t last_quarter(const struct search *search, size_t first, size_t n) {
    const uint64_t first_ns = first > 0 ? search->slice_ns[first - 1] : 0;
    const uint64_t end_ns = n < COURSE_SLICES ? search->slice_ns[n - 1] : end_ns_of(search);
    const size_t by_blocks = n - (n - first) / QUARTERS;
    if (end_ns <= first_ns) {
        return by_blocks;
    }
    const uint64_t last_ns = end_ns - (end_ns - first_ns) / QUARTERS;
    size_t by_clock = first;
    while (by_clock < n && search->slice_ns[by_clock] < last_ns) {
        by_clock++;
    }
    return by_clock > by_blocks ? by_clock : by_blocks;
}

static uint64_t most_in_use(const struct line_evidence *evidence, size_t from, size_t to) {
    uint64_t most = 0;
    for (size_t i = from; i < to; i++) {
        most = evidence->course_bytes[i] > most ? evidence->course_bytes[i] : most;
    }
    return most;
}

/* Whether a line grew in the last quarter. FIRST: the slice in which the first left block was made.
 * N: number of slices that are considered; if it is less than COURSE_SLICES, the blocks are those
 * of a collector. */
static bool grows_late(const struct search *search, const struct line_evidence *evidence,
                       const uint64_t made[COURSE_SLICES + 1], size_t first, size_t n,
                       bool is_collected) {
    const size_t late = last_quarter(search, first, n);
    const size_t late_of_all = last_quarter(search, first, COURSE_SLICES);
    const uint64_t end = made[n], all = made[COURSE_SLICES];
    if (!rises(made[late], end, end) || !rises(made[late_of_all], all, all)) {
        return false;
    }
    return is_collected ||
           rises(most_in_use(evidence, 0, late), most_in_use(evidence, late, n), end);
}

/* Whether the bytes that a line has in use rose enough after the first left block was made (section
 * 3 at the top of this file). N: number of slices that are considered. */
static bool has_gained(const struct line_evidence *evidence, size_t first, size_t n, uint64_t end) {
    const uint64_t before = first > 0 ? evidence->course_bytes[first - 1] : 0;
    const uint64_t most = most_in_use(evidence, first, n);
    return most > before && is_share(most - before, LEAK_GAIN_PERCENT, end);
}

/* The number of slices that ended before the last collection of the line's blocks; all slices, if
 * they are not collected. */
static size_t slices_before_collection(const struct search *search, size_t blamed_line) {
    size_t n = 0;
    while (n < COURSE_SLICES && (search->collected_ns[blamed_line] == NOT_COLLECTED ||
                                 search->slice_ns[n] <= search->collected_ns[blamed_line])) {
        n++;
    }
    return n;
}

/* Computes how many bytes of the blocks left at the end were made before each slice. Returns the
 * slice in which the first left block was made. N: number of slices that are considered. */
static size_t count_made(const struct line_evidence *evidence, size_t n,
                         uint64_t ret_made[COURSE_SLICES + 1]) {
    size_t first = 0;
    ret_made[0] = 0;
    for (size_t i = 0; i < COURSE_SLICES; i++) {
        ret_made[i + 1] = ret_made[i] + evidence->left_bytes[i];
    }
    while (first < n && !is_share(ret_made[first + 1], LEAK_GROUND_PERCENT, ret_made[n])) {
        first++;
    }
    return first;
}

/* N: number of slices that are considered. */
static bool is_growing(const struct search *search, const struct line_evidence *evidence, size_t n,
                       bool is_collected) {
    uint64_t made[COURSE_SLICES + 1];
    const size_t first = count_made(evidence, n, made);
    const uint64_t end = made[n];
    const size_t way = n - first;
    if (way < LEAK_SLICES || !has_gained(evidence, first, n, end)) {
        return false;
    }
    for (size_t quarter = 0; quarter < QUARTERS; quarter++) {
        const size_t from = first + way * quarter / QUARTERS,
                     to = first + way * (quarter + 1) / QUARTERS;
        if (!rises(made[from], made[to], end)) {
            return false;
        }
    }
    return grows_late(search, evidence, made, first, n, is_collected);
}

/* Returns the lowest number of bytes that the process had in use from the last point of the
 * timeline before a moment to the end. The moment is given as a time (FROM_NS) or as the bytes that
 * were allocated before it (FROM_BYTES); the other argument is 0. */
static uint64_t floor_since(const struct search *search, uint64_t from_ns, uint64_t from_bytes) {
    const struct ag_timeline_point *points;
    uint64_t lowest = search->whole->in_use_bytes;
    for (size_t i = ag_profile_timeline(search->profile, &points); i-- > 0;) {
        lowest = points[i].in_use_bytes < lowest ? points[i].in_use_bytes : lowest;
        if (points[i].time_ns < from_ns || points[i].allocated_bytes < from_bytes) {
            break;
        }
    }
    return lowest;
}

static bool must_have_grown(const struct search *search, uint64_t bytes) {
    const struct ag_timeline_point *points;
    const size_t n = ag_profile_timeline(search->profile, &points);
    if (n < COURSE_LEAST_POINTS || search->profile->has_window) {
        return false;
    }
    const uint64_t end = search->whole->in_use_bytes, made = points[n - 1].allocated_bytes;
    uint64_t floor = floor_since(search, 0, made / QUARTERS);
    for (uint64_t quarter = 2; quarter < QUARTERS; quarter++) {
        const uint64_t next = floor_since(search, 0, made / QUARTERS * quarter);
        if (!rises(floor, next, end)) {
            return false;
        }
        floor = next;
    }
    return rises(floor, end, end) && rises(floor, bytes, bytes) &&
           rises(floor_since(search, end_ns_of(search) / QUARTERS * (QUARTERS - 1), 0), bytes,
                 bytes);
}

/* Adds up the blocks that survived the last collection. N: number of slices before it. */
static void add_survivors(const struct line_evidence *evidence, size_t n,
                          struct ag_finding *finding) {
    finding->blocks = finding->bytes = 0;
    for (size_t i = 0; i < n; i++) {
        finding->blocks += evidence->left_blocks[i];
        finding->bytes += evidence->left_bytes[i];
    }
}

static void add_half_way(const struct line_evidence *evidence, size_t n,
                         struct ag_finding *finding) {
    finding->knows_half_way = true;
    for (size_t i = 0; i < COURSE_SLICES / 2 && i < n; i++) {
        finding->half_way_bytes += evidence->left_bytes[i];
    }
}

static bool find_leak(struct search *search, size_t blamed_line, struct ag_finding *finding) {
    const struct ag_metrics *metrics = &search->blamed_lines[blamed_line].metrics;
    const struct line_evidence *evidence = search->evidence ? &search->evidence[blamed_line] : NULL;
    const bool is_collected = search->collected_ns[blamed_line] != NOT_COLLECTED;
    const size_t n = evidence ? slices_before_collection(search, blamed_line) : 0;
    const struct ag_summary *whole = search->whole;
    struct ag_finding found = {.kind = AG_FINDING_LEAK,
                               .whole = whole->in_use_bytes,
                               .blocks = is_collected ? 0 : metrics->in_use_blocks,
                               .bytes = is_collected ? 0 : metrics->in_use_bytes,
                               .is_collected = is_collected};
    if (is_collected && evidence) {
        add_survivors(evidence, n, &found);
    }
    const bool is_much = (found.blocks >= LEAK_SMALL_BLOCKS && found.bytes >= LEAK_SMALL_BYTES) ||
                         (found.blocks >= LEAK_LARGE_BLOCKS && found.bytes >= LEAK_LARGE_BYTES);
    if (!is_much || !knows_leaks(search->profile) ||
        (!is_share(found.bytes, LEAK_PERCENT, whole->in_use_bytes) &&
         !is_share(found.blocks, LEAK_PERCENT, whole->in_use_blocks))) {
        return false;
    }
    if (evidence ? !is_growing(search, evidence, n, is_collected)
                 : !must_have_grown(search, found.bytes)) {
        return false;
    }
    found.part = found.bytes;
    if (evidence) {
        add_half_way(evidence, n, &found);
    }
    *finding = found;
    return true;
}

/* Whether a line makes nearly all blocks in the period in which its left blocks are made. */
static bool makes_nearly_all(const struct search *search, const struct line_evidence *evidence,
                             size_t n, uint64_t blocks) {
    uint64_t made[COURSE_SLICES + 1];
    const size_t first = count_made(evidence, n, made);
    return is_share(blocks, LATE_MOST_PERCENT,
                    search->whole->allocated_blocks / COURSE_SLICES * (n - first));
}

/* Applies the conditions of a leak to the moment before the blocks of a line are freed at exit. */
static bool find_growth(struct search *search, size_t blamed_line, struct ag_finding *finding) {
    const struct line_evidence *evidence = search->evidence ? &search->evidence[blamed_line] : NULL;
    const struct freed_late *late = evidence ? evidence->freed_late : NULL;
    const bool is_collected = search->collected_ns[blamed_line] != NOT_COLLECTED;
    const size_t n = slices_before_collection(search, blamed_line);
    if (!late || late->all_bytes < evidence->in_use_bytes || !knows_leaks(search->profile)) {
        return false;
    }
    struct line_evidence before = *evidence;
    for (size_t i = 0; i < COURSE_SLICES; i++) {
        before.left_blocks[i] += late->blocks[i];
        before.left_bytes[i] += late->bytes[i];
    }
    before.course_bytes[COURSE_SLICES - 1] += late->all_bytes;
    struct ag_finding found = {.kind = AG_FINDING_GROWTH,
                               .whole = search->whole->in_use_bytes + search->freed_late_bytes,
                               .is_collected = is_collected};
    add_survivors(&before, n, &found);
    if (found.blocks < LATE_BLOCKS || found.bytes < LATE_BYTES ||
        !is_share(found.bytes, LATE_PERCENT, found.whole) ||
        makes_nearly_all(search, &before, n, found.blocks) ||
        !is_growing(search, &before, n, is_collected)) {
        return false;
    }
    found.part = found.bytes;
    add_half_way(&before, n, &found);
    *finding = found;
    return true;
}

/* ---- single blocks ---- */

static bool find_steps(struct search *search, size_t blamed_line, struct ag_finding *finding) {
    const struct line_evidence *evidence = search->evidence ? &search->evidence[blamed_line] : NULL;
    const uint64_t all = search->whole->allocated_bytes;
    if (!evidence || evidence->longest_chain < STEPS ||
        !is_share(evidence->stepped_blocks, STEPS_SAME_PERCENT, evidence->enlarged_blocks) ||
        (evidence->longest_chain < STEPS_MANY &&
         !is_share(evidence->enlarged_bytes, STEPS_PERCENT, all))) {
        return false;
    }
    *finding = (struct ag_finding){.kind = AG_FINDING_STEPS,
                                   .part = evidence->enlarged_bytes,
                                   .whole = all,
                                   .blocks = evidence->enlarged_blocks,
                                   .bytes = evidence->enlarged_bytes,
                                   .step_bytes = evidence->step_bytes,
                                   .largest_bytes = evidence->largest_enlarged_bytes};
    return true;
}

/* The lowest size class above the highest gap; the blocks of this class and of larger ones are
 * outsized. SIZE_CLASSES: there is no gap. */
static size_t find_gap(const struct line_evidence *evidence) {
    size_t n_empty = 0, above = SIZE_CLASSES;
    for (size_t class = SIZE_CLASSES; class -- > 0;) {
        if (evidence->class_blocks[class] == 0) {
            n_empty++;
            continue;
        }
        if (above < SIZE_CLASSES && n_empty >= OUTSIZED_GAP) {
            return above;
        }
        above = class;
        n_empty = 0;
    }
    return SIZE_CLASSES;
}

static bool find_outsized(struct search *search, size_t blamed_line, struct ag_finding *finding) {
    const struct line_evidence *evidence = search->evidence ? &search->evidence[blamed_line] : NULL;
    if (!evidence || !knows_peak(search->profile) || evidence->largest_bytes < OUTSIZED_BYTES ||
        !is_share(evidence->largest_bytes, OUTSIZED_PERCENT, search->whole->peak_bytes)) {
        return false;
    }
    const size_t gap = find_gap(evidence);
    struct ag_finding found = {.kind = AG_FINDING_OUTSIZED,
                               .part = evidence->largest_bytes,
                               .whole = search->whole->peak_bytes,
                               .largest_bytes = evidence->largest_bytes};
    for (size_t class = 0; class < SIZE_CLASSES; class ++) {
        found.blocks += class >= gap ? evidence->class_blocks[class] : 0;
        found.bytes += class >= gap ? evidence->class_bytes[class] : 0;
        found.other_blocks += class < gap ? evidence->class_blocks[class] : 0;
        found.other_bytes += class < gap ? evidence->class_bytes[class] : 0;
    }
    if (found.blocks == 0 || found.other_blocks < OUTSIZED_OTHERS ||
        !is_share(found.other_blocks, OUTSIZED_OTHERS_PERCENT, found.blocks + found.other_blocks)) {
        return false;
    }
    *finding = found;
    return true;
}

/* ---- sums ---- */

static bool find_temporary(struct search *search, size_t blamed_line, struct ag_finding *finding) {
    const uint64_t blocks = search->blamed_lines[blamed_line].metrics.temporary_blocks;
    const uint64_t all = search->whole->allocated_blocks;
    if (blocks < TEMPORARY_BLOCKS || !is_share(blocks, TEMPORARY_PERCENT, all) ||
        blocks / TEMPORARY_A_SECOND < search->whole->duration_ns / SECOND_NS) {
        return false;
    }
    *finding = (struct ag_finding){.kind = AG_FINDING_TEMPORARY,
                                   .part = blocks,
                                   .whole = all,
                                   .blocks = blocks,
                                   .within = search->profile->options.temporary_within};
    return true;
}

static bool find_peak(struct search *search, size_t blamed_line, struct ag_finding *finding) {
    const struct ag_metrics *metrics = &search->blamed_lines[blamed_line].metrics;
    const uint64_t peak = search->whole->peak_bytes;
    if (metrics->peak_bytes < PEAK_BYTES || !knows_peak(search->profile) ||
        !is_share(metrics->peak_bytes, PEAK_PERCENT, peak)) {
        return false;
    }
    *finding = (struct ag_finding){.kind = AG_FINDING_PEAK,
                                   .part = metrics->peak_bytes,
                                   .whole = peak,
                                   .blocks = metrics->peak_blocks,
                                   .bytes = metrics->peak_bytes};
    return true;
}

/* ---- threads ---- */

/* Blocks that a garbage collector found dead are recorded as freed by the thread that ran the
 * collection, although no thread freed them. The pairs of threads contain at most as many such
 * blocks as collectors freed in total, so the total is subtracted. */
static void leave_out_collected(const struct ag_profile *profile, struct ag_finding *found) {
    const struct ag_heap_row *heaps;
    const size_t n = ag_profile_heaps(profile, &heaps);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(heaps[i].kind, "malloc") != 0) {
            const struct ag_metrics *of = &heaps[i].metrics;
            found->blocks = subtract_or_0(found->blocks,
                                          subtract_or_0(of->allocated_blocks, of->in_use_blocks));
            found->bytes =
                subtract_or_0(found->bytes, subtract_or_0(of->allocated_bytes, of->in_use_bytes));
        }
    }
}

/* The pairs of threads are sums of the whole process, so they cannot be used if a filter excludes
 * stacks. */
static bool find_foreign_frees(const struct search *search, struct ag_finding *finding) {
    const struct ag_thread_pair *pairs;
    const size_t n_pairs = ag_profile_thread_pairs(search->profile, &pairs);
    const struct ag_thread_pair *largest = NULL;
    struct ag_finding found = {.kind = AG_FINDING_FOREIGN_FREES, .frame = UINT32_MAX};
    for (size_t i = 0; i < n_pairs && !search->profile->is_filtered; i++) {
        if (pairs[i].allocated_by != pairs[i].freed_by) {
            found.blocks += pairs[i].blocks;
            found.bytes += pairs[i].bytes;
            largest = largest && largest->blocks >= pairs[i].blocks ? largest : &pairs[i];
        }
    }
    leave_out_collected(search->profile, &found);
    found.part = found.blocks;
    found.whole = search->whole->freed_blocks;
    if (!largest || found.blocks < FOREIGN_BLOCKS ||
        !is_share(found.blocks, FOREIGN_PERCENT, found.whole)) {
        return false;
    }
    found.allocated_by = ag_profile_thread(search->profile, largest->allocated_by);
    found.freed_by = ag_profile_thread(search->profile, largest->freed_by);
    *finding = found;
    return true;
}

/* If the events were read, attributes the finding to the line that allocated most of the blocks
 * that another thread freed. */
static void place_foreign_frees(struct search *search, struct ag_finding *finding) {
    size_t most = search->n_blamed_lines;
    for (size_t i = 0; i < search->n_blamed_lines && search->evidence; i++) {
        if (search->evidence[i].foreign_blocks > 0 &&
            (most == search->n_blamed_lines ||
             search->evidence[i].foreign_blocks > search->evidence[most].foreign_blocks)) {
            most = i;
        }
    }
    if (most < search->n_blamed_lines) {
        finding->frame = search->blamed_lines[most].frame;
        search->is_taken[most] = true;
    }
}

/* ---- blocks of functions that are not recorded ---- */

static bool knows_unseen(const struct search *search) {
    const struct ag_profile *profile = search->profile;
    return is_whole(profile) && !profile->has_window && profile->n_parts == 0;
}

static bool may_find_unseen(const struct search *search) {
    return knows_unseen(search) && search->whole->ghost_frees >= UNSEEN_BLOCKS;
}

/* Each buried block is also counted as a repair of the order of events. So if there are fewer
 * repairs than UNSEEN_BLOCKS, the rule cannot hold. */
static bool may_find_unseen_frees(const struct search *search) {
    return knows_unseen(search) && search->whole->order_repairs >= UNSEEN_BLOCKS;
}

bool ag_findings_miss_frees(uint64_t buried, uint64_t freed) {
    return buried >= UNSEEN_BLOCKS && is_share(buried, UNSEEN_PERCENT, freed);
}

static bool find_unseen_frees(const struct search *search, struct ag_finding *finding) {
    const uint64_t buried = search->buried_blocks;
    const uint64_t all = search->whole->freed_blocks; /* includes the buried blocks */
    if (!may_find_unseen_frees(search) || !ag_findings_miss_frees(buried, all)) {
        return false;
    }
    *finding = (struct ag_finding){.kind = AG_FINDING_UNSEEN_FREES,
                                   .frame = UINT32_MAX,
                                   .part = buried,
                                   .whole = all,
                                   .blocks = buried};
    return true;
}

static bool find_unseen(const struct search *search, struct ag_finding *finding) {
    const uint32_t *frames;
    const uint64_t all =
        search->whole->freed_blocks + search->whole->ghost_frees + search->whole->inherited_frees;
    if (!may_find_unseen(search) || search->repeated_ghosts < UNSEEN_BLOCKS ||
        !is_share(search->repeated_ghosts, UNSEEN_PERCENT, all)) {
        return false;
    }
    *finding = (struct ag_finding){.kind = AG_FINDING_UNSEEN,
                                   .frame = UINT32_MAX,
                                   .part = search->repeated_ghosts,
                                   .whole = all,
                                   .blocks = search->repeated_ghosts};
    if (search->ghost_stack != 0 &&
        ag_profile_stack_frames(search->profile, search->ghost_stack, &frames) > 0) {
        finding->frame = frames[0];
    }
    return true;
}

/* ---- resident memory that is not in use ---- */

/* Whether the resident memory may be mostly free memory, judged by the bytes in use around the
 * moment of the look. If not, the blocks need not be compared with the pages. */
static bool may_be_mostly_free(const struct search *search) {
    const struct ag_profile *profile = search->profile;
    const struct ag_model_look *look = &profile->definitions.peak_look;
    const struct ag_timeline_point *points;
    const size_t n_points = ag_profile_timeline(profile, &points);
    const uint64_t start_ns = profile->definitions.start_ns;
    const uint64_t at_ns = look->time_ns > start_ns ? look->time_ns - start_ns : 0;
    uint64_t in_use = UINT64_MAX;
    for (size_t i = 0; i < n_points; i++) {
        const bool is_last_before =
            points[i].time_ns <= at_ns && (i + 1 == n_points || points[i + 1].time_ns > at_ns);
        const bool is_first_after =
            points[i].time_ns > at_ns && (i == 0 || points[i - 1].time_ns <= at_ns);
        if ((is_last_before || is_first_after) && points[i].in_use_bytes < in_use) {
            in_use = points[i].in_use_bytes;
        }
    }
    return is_whole(profile) && ag_profile_has_resident_parts(profile) &&
           look->look.rss_bytes >= RESIDENT_FREE_BYTES &&
           (n_points == 0 || in_use <= look->look.rss_bytes / 2);
}

/* If most free bytes are on pages that also contain blocks, the finding names the line whose blocks
 * keep most of these bytes resident. Pages without a block belong to no line. */
static int find_resident(const struct search *search, struct ag_finding *finding, bool *ret_holds) {
    struct ag_resident_parts parts;
    char message[512];
    const int r = ag_profile_resident_parts(search->profile, AG_RESIDENT_AT_PEAK, &parts, message);
    *ret_holds = false;
    if (r < 0) {
        return r;
    }
    const uint64_t pinned = parts.bytes[AG_CLASS_PINNED_FREE],
                   pages = parts.bytes[AG_CLASS_RETURNABLE];
    *finding = (struct ag_finding){.kind = AG_FINDING_RESIDENT,
                                   .frame = UINT32_MAX,
                                   .part = pinned + pages,
                                   .whole = parts.rss_bytes,
                                   .resident_bytes = parts.rss_bytes,
                                   .live_bytes = parts.bytes[AG_CLASS_LIVE],
                                   .pinned_bytes = pinned,
                                   .free_page_bytes = pages,
                                   .trim_bytes = parts.trim_bytes};
    if (pinned >= pages && parts.n_sites[AG_CLASS_PINNED_FREE] > 0) {
        const struct ag_resident_site *site = &parts.sites[AG_CLASS_PINNED_FREE][0];
        finding->frame = site->frame_number;
        finding->blocks = site->blocks;
        finding->bytes = site->block_bytes;
        finding->line_pinned_bytes = site->bytes;
    }
    *ret_holds = pinned + pages >= RESIDENT_FREE_BYTES &&
                 is_share(pinned + pages, RESIDENT_FREE_PERCENT, parts.rss_bytes);
    ag_resident_parts_done(&parts);
    return 0;
}

/* ---- all rules for all lines, and the choice of findings ---- */

typedef bool rule(struct search *search, size_t blamed_line, struct ag_finding *finding);

/* Findings of one kind. Nearly all rules need a share of at least 5 %, so about 20 lines can have a
 * finding of one kind. */
struct found {
    struct ag_finding rows[FOUND_MOST];
    size_t blamed_lines[FOUND_MOST];
    size_t count;
};

static void rule_apply(struct search *search, rule *holds, struct found *found) {
    for (size_t i = 0; i < search->n_blamed_lines && found->count < FOUND_MOST; i++) {
        if (!search->is_taken[i] && holds(search, i, &found->rows[found->count])) {
            found->rows[found->count].frame = search->blamed_lines[i].frame;
            found->blamed_lines[found->count++] = i;
            search->is_taken[i] = true;
        }
    }
}

static bool is_same_function(const struct search *search, uint32_t left, uint32_t right) {
    const struct ag_frame_table *table = &search->profile->frames;
    const struct ag_model_frame *a = ag_frame_table_get(table, left),
                                *b = ag_frame_table_get(table, right);
    return a->function == b->function && a->image == b->image;
}

static bool belongs_to(const struct search *search, const struct found *found, size_t one,
                       size_t other) {
    const uint32_t frame = found->rows[one].frame, outer = found->rows[other].frame;
    if (is_same_function(search, frame, outer)) { /* the line with the largest own part is named */
        return found->rows[one].part <= found->rows[other].part;
    }
    return found->rows[one].kind == AG_FINDING_LEAK &&
           ag_profile_blamed_line_goes_through(search->profile, found->blamed_lines[one], outer);
}

/* Merges findings with one cause: if an object leaks, its members leak, too. The members are
 * allocated on other lines of the same function, or in functions that this function calls. */
static void merge_findings(const struct search *search, struct found *found) {
    for (size_t i = 0; i < found->count; i++) {
        for (size_t k = 0; k < found->count; k++) {
            struct ag_finding *whole = &found->rows[k];
            const struct ag_finding *part = &found->rows[i];
            if (i == k || !belongs_to(search, found, i, k)) {
                continue;
            }
            whole->merged_lines += part->merged_lines + 1;
            whole->merged_part += part->merged_part + part->part;
            whole->merged_blocks += part->merged_blocks + part->blocks;
            whole->merged_bytes += part->merged_bytes + part->bytes;
            found->rows[i] = found->rows[--found->count];
            found->blamed_lines[i] = found->blamed_lines[found->count];
            i = SIZE_MAX; /* start again: the merged finding may be part of another */
            break;
        }
    }
}

/* The finding with the largest share that is not chosen yet; NULL: none. */
static struct ag_finding *take_largest(struct found *found) {
    struct ag_finding *largest = NULL;
    for (size_t i = 0; i < found->count; i++) {
        struct ag_finding *row = &found->rows[i];
        if (row->whole > 0 && (!largest || is_larger_share(row, largest))) {
            largest = row;
        }
    }
    return largest;
}

static void choose_findings(struct found *found, struct ag_findings *findings) {
    for (size_t rank = 0; rank < AG_FINDINGS_MOST; rank++) {
        for (size_t kind = 0; kind < AG_FINDING_KINDS; kind++) {
            struct ag_finding *largest = take_largest(&found[kind]);
            if (largest && findings->count < AG_FINDINGS_MOST) {
                findings->rows[findings->count++] = *largest;
                largest->whole = 0;
            }
        }
    }
}

/* RESIDENT: the finding on resident memory; NULL: there is none. */
static void findings_find(struct search *search, struct ag_finding *foreign,
                          const struct ag_finding *resident, struct ag_findings *findings) {
    struct found found[AG_FINDING_KINDS] = {{.count = 0}};
    found[AG_FINDING_UNSEEN].count = find_unseen(search, &found[AG_FINDING_UNSEEN].rows[0]);
    found[AG_FINDING_UNSEEN_FREES].count =
        find_unseen_frees(search, &found[AG_FINDING_UNSEEN_FREES].rows[0]);
    rule_apply(search, find_leak, &found[AG_FINDING_LEAK]);
    merge_findings(search, &found[AG_FINDING_LEAK]);
    if (resident != NULL) {
        found[AG_FINDING_RESIDENT].rows[0] = *resident;
        found[AG_FINDING_RESIDENT].count = 1;
    }
    rule_apply(search, find_steps, &found[AG_FINDING_STEPS]);
    rule_apply(search, find_outsized, &found[AG_FINDING_OUTSIZED]);
    rule_apply(search, find_temporary, &found[AG_FINDING_TEMPORARY]);
    merge_findings(search, &found[AG_FINDING_TEMPORARY]);
    if (search->watches_threads) {
        place_foreign_frees(search, foreign);
        found[AG_FINDING_FOREIGN_FREES].rows[0] = *foreign;
        found[AG_FINDING_FOREIGN_FREES].count = 1;
    }
    rule_apply(search, find_peak, &found[AG_FINDING_PEAK]);
    rule_apply(search, find_growth, &found[AG_FINDING_GROWTH]);
    choose_findings(found, findings);
}

/* Whether a rule that needs no events can hold, judged by the sums of the whole process. If none
 * can hold and no events are read, the blamed lines need not be computed. */
static bool can_hold_by_sums(const struct search *search) {
    const struct ag_summary *whole = search->whole;
    return search->watches_threads || whole->peak_bytes >= PEAK_BYTES ||
           (whole->in_use_blocks >= LEAK_LARGE_BLOCKS && whole->in_use_bytes >= LEAK_SMALL_BYTES) ||
           (whole->temporary_blocks >= TEMPORARY_BLOCKS &&
            is_share(whole->temporary_blocks, TEMPORARY_PERCENT, whole->allocated_blocks));
}

/* Whether a rule that needs events can hold, judged by the sums of the whole process. For many
 * programs none can hold; then the events are not read. */
static bool needs_events(const struct search *search) {
    const struct ag_profile *profile = search->profile;
    const struct ag_summary *whole = search->whole;
    if (search->watches_threads || may_be_mostly_free(search) || may_find_unseen(search) ||
        may_find_unseen_frees(search) || whole->peak_bytes >= LATE_BYTES ||
        (whole->in_use_blocks >= LEAK_LARGE_BLOCKS && whole->in_use_bytes >= LEAK_SMALL_BYTES)) {
        return true;
    }
    uint64_t reallocated = 0;
    const char *via = NULL; /* of the previous row; equal names are at the same address */
    bool is_realloc = false;
    for (size_t i = 0; i < profile->n_rows; i++) {
        const struct ag_stack_row *row = &profile->rows[i];
        is_realloc = row->via_name == via ? is_realloc : is_realloc_row(row);
        via = row->via_name;
        reallocated += is_realloc ? row->metrics.allocated_blocks : 0;
    }
    return reallocated >= STEPS;
}

static bool can_read_events(const struct search *search, enum ag_findings_reach reach) {
    const struct ag_summary *whole = search->whole;
    /* the events of a merged profile are in its parts */
    if (search->profile->n_parts > 0) {
        return false;
    }
    return reach == AG_FINDINGS_ALL || whole->allocated_blocks + whole->freed_blocks +
                                               whole->ghost_frees + whole->inherited_frees <=
                                           EVENTS_MOST;
}

static int take_blamed_lines(struct search *search) {
    const int r =
        ag_profile_blamed_lines(search->profile, &search->blamed_lines, &search->n_blamed_lines);
    if (r < 0) {
        return r;
    }
    search->is_taken = calloc(search->n_blamed_lines + 1, sizeof(*search->is_taken));
    return search->is_taken ? 0 : -ENOMEM;
}

static int find_collections(struct search *search) {
    const struct ag_profile *profile = search->profile;
    const struct ag_definitions *definitions = &profile->definitions;
    struct of_heap {
        bool is_collected;
        uint64_t last_ns;
    } *heaps = calloc(definitions->n_heaps + 1, sizeof(*heaps));
    uint64_t *collected_bytes = calloc(search->n_blamed_lines + 1, sizeof(*collected_bytes));
    search->collected_ns = calloc(search->n_blamed_lines + 1, sizeof(*search->collected_ns));
    const bool has_room = heaps && collected_bytes && search->collected_ns;
    for (size_t i = 0; i < definitions->n_heaps && has_room; i++) {
        heaps[i].is_collected =
            ag_heap_is_collected(definitions, &definitions->heaps[i], &heaps[i].last_ns);
    }
    for (size_t i = 0; i < profile->n_rows && has_room; i++) {
        const struct ag_model_heap *heap =
            ag_definitions_heap_of_via(definitions, profile->rows[i].via);
        const struct of_heap *of = heap ? &heaps[heap - definitions->heaps] : NULL;
        if (of && of->is_collected) {
            collected_bytes[profile->line_of_row[i]] += profile->rows[i].metrics.in_use_bytes;
            search->collected_ns[profile->line_of_row[i]] = of->last_ns;
        }
    }
    for (size_t i = 0; i < search->n_blamed_lines && has_room; i++) {
        if (collected_bytes[i] <= search->blamed_lines[i].metrics.in_use_bytes / 2) {
            search->collected_ns[i] = NOT_COLLECTED;
        }
    }
    free(heaps);
    free(collected_bytes);
    return has_room ? 0 : -ENOMEM;
}

static int search_all(struct search *search, enum ag_findings_reach reach,
                      struct ag_findings *findings) {
    struct ag_finding foreign, resident;
    bool has_resident = false;
    search->watches_threads = find_foreign_frees(search, &foreign);
    const bool is_needed = needs_events(search);
    bool is_read = is_needed && can_read_events(search, reach);
    findings->is_partial = is_needed && !is_read;
    if (!is_read && !can_hold_by_sums(search)) {
        return 0;
    }
    int r = take_blamed_lines(search);
    if (r == 0 && is_read && search->n_blamed_lines > BLAMED_LINES_MOST) {
        is_read = false;
        findings->is_partial = true;
    }
    r = r == 0 ? find_collections(search) : r;
    r = r == 0 && is_read ? search_read_events(search) : r;
    if (r == 0 && is_read && may_be_mostly_free(search)) {
        r = find_resident(search, &resident, &has_resident);
    }
    if (r == 0) {
        findings_find(search, &foreign, has_resident ? &resident : NULL, findings);
    }
    return r;
}

/* ---- the processes of a merged profile ---- */

/* Returns what a row of the line of the finding adds to `part`. */
static uint64_t part_of_row(const struct ag_finding *finding, const struct ag_metrics *metrics) {
    return finding->kind == AG_FINDING_TEMPORARY ? metrics->temporary_blocks : metrics->peak_bytes;
}

/* Adds to PARTS what each process has of `part`. The rules that apply to a merged profile are those
 * for a peak, temporary blocks and foreign frees. */
static void add_parts(const struct search *search, const struct ag_finding *finding,
                      uint64_t *parts) {
    const struct ag_profile *profile = search->profile;
    const struct ag_thread_pair *pairs;
    const size_t n_pairs = ag_profile_thread_pairs(profile, &pairs);
    if (finding->kind == AG_FINDING_FOREIGN_FREES) {
        for (size_t i = 0; i < n_pairs; i++) {
            const uint64_t blocks =
                pairs[i].allocated_by != pairs[i].freed_by ? pairs[i].blocks : 0;
            parts[ag_profile_process_of_stream(profile, pairs[i].allocated_by)] += blocks;
        }
        return;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        if (search->blamed_lines[profile->line_of_row[i]].frame == finding->frame) {
            parts[ag_profile_process_of_row(profile, i)] +=
                part_of_row(finding, &profile->rows[i].metrics);
        }
    }
}

static int find_processes(const struct search *search, struct ag_findings *findings) {
    const size_t n = search->profile->n_parts;
    uint64_t *parts = calloc(n, sizeof(*parts));
    for (size_t i = 0; i < findings->count && parts; i++) {
        struct ag_finding *finding = &findings->rows[i];
        memset(parts, 0, n * sizeof(*parts));
        add_parts(search, finding, parts);
        for (uint32_t p = 0; p < n; p++) {
            finding->n_processes += parts[p] > 0;
            if (parts[p] > finding->process_part) {
                finding->process = p;
                finding->process_part = parts[p];
            }
        }
        /* `part` of foreign frees is without the blocks that collectors freed, the pairs are not */
        finding->process_part =
            finding->process_part < finding->part ? finding->process_part : finding->part;
    }
    const int r = parts ? 0 : -ENOMEM;
    free(parts);
    return r;
}

/* Puts the finding about mapped memory after those about blocks that are not recorded. If there is
 * no room, the last finding is left out. */
static int add_mapped(struct ag_profile *profile, enum ag_findings_reach reach,
                      struct ag_findings *findings) {
    struct ag_mapped_memory_note note;
    const struct ag_summary *summary = ag_profile_summary(profile);
    const int r = ag_profile_mapped_memory_note(
        profile, reach == AG_FINDINGS_ALL ? AG_MAPPINGS_ALL : AG_MAPPINGS_QUICK, &note);
    if (r < 0 || !note.is_there) {
        return r;
    }
    size_t at = 0;
    while (at < findings->count && findings->rows[at].kind < AG_FINDING_MAPPED) {
        at++;
    }
    findings->count += findings->count < AG_FINDINGS_MOST;
    for (size_t i = findings->count - 1; i > at; i--) {
        findings->rows[i] = findings->rows[i - 1];
    }
    findings->rows[at] = (struct ag_finding){.kind = AG_FINDING_MAPPED,
                                             .frame = note.frame,
                                             .mappings = note.mappings,
                                             .part = note.line_bytes,
                                             .whole = note.peak_bytes,
                                             .bytes = note.line_bytes,
                                             .blocks_peak_bytes = summary->peak_bytes,
                                             .rss_peak_bytes = summary->rss_peak_bytes};
    return 0;
}

int ag_profile_findings(struct ag_profile *profile, enum ag_findings_reach reach,
                        struct ag_findings *ret_findings) {
    const bool is_merged = profile->n_parts > 0;
    struct search search = {.profile = profile,
                            .whole = is_merged ? &profile->summary : &profile->sums.summary};
    struct ag_findings findings = {.count = 0};
    int r = 0;
    /* the rules need exact counts */
    if (strcmp(profile->identity.mode, "exact") == 0) {
        r = search_all(&search, reach, &findings);
    }
    if (r == 0 && is_merged) {
        r = find_processes(&search, &findings);
    }
    r = r < 0 ? r : add_mapped(profile, reach, &findings);
    if (r == 0) {
        *ret_findings = findings;
    }
    for (size_t i = 0; search.evidence && i < search.n_blamed_lines; i++) {
        free(search.evidence[i].freed_late);
    }
    free(search.is_taken);
    free(search.collected_ns);
    free(search.evidence);
    return r;
}
