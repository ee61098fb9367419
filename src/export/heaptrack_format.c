/* heaptrack_format.c: exports the text format of heaptrack, for heaptrack_gui and heaptrack_print.
 *
 * The format has no specification. The reference is the function of heaptrack that reads files
 * which heaptrack_interpret wrote: AccumulatedTraceData::read of github.com/KDE/heaptrack
 * (src/analyze/accumulatedtracedata.cpp). All numbers are hexadecimal; indices begin with 1 except
 * those of `a`, which begin with 0. The lines are:
 *
 *     v VERSION FORMAT    X COMMAND       I PAGE_BYTES PAGES
 *     s TEXT              a string        i PC MODULE [FUNCTION FILE LINE]...   innermost first
 *     t IP PARENT         a stack: the indices of its innermost `i` line and of the `t` line of the
 *                         stack that called it, 0: none
 *     a BYTES STACK       a kind of allocation; numbered from 0
 *     + A   - A           a block of the kind A (the number of a line `a`) is allocated, is freed
 *     c MS  R PAGES       time, resident size
 *
 * This file writes format 2, which every heaptrack since 1.0 reads; in this format, a string is the
 * rest of its line. The output contains every event: a hundred million events take some gigabytes
 * of text. `... | zstd >x.zst` compresses the text, and heaptrack reads the compressed file.
 *
 * In a sampled trace each sample becomes one block with the number of bytes that the sample
 * represents. So bytes are estimates, and calls are the number of samples. The line X contains a
 * note about the estimates.
 *
 * heaptrack calls a block temporary if its free directly follows an allocation of the same kind, in
 * any thread. The definition of allogram is different: by default, the thread that allocated the
 * block allocates no other block before the free.
 *
 * heaptrack_gui requires that the kinds are first allocated in the order of their numbers,
 * beginning with 0. For a line `+ A`, it appends a counter if A equals the number of its counters;
 * otherwise it writes to counter A without a check (ParserData::handleAllocation of
 * src/analyze/gui/parser.cpp). So heaptrack_gui crashes if a kind is never allocated. heaptrack
 * also uses the number 0 to mark that the previous line was no allocation. So it counts a block of
 * kind 0 as temporary if the block is freed directly after another free. Therefore kind 0 has a
 * single block, the first of the file, and other blocks of the same size and stack have another
 * kind. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "export/call_tree.h"
#include "model/pass/replay.h"
#include "text/number.h"

enum { TICK_NS = 10 * 1000 * 1000, NS_PER_MS = 1000 * 1000 };

#define FIRST_KIND UINT64_MAX /* the key of kind 0, in place of bytes and stack */

/* The first block of the file, the only one of kind 0. */
struct first_block {
    uint64_t bytes;
    uint32_t row;
    uint64_t n_others; /* other blocks in use with the same bytes and row */
    bool is_written;
};
struct heaptrack {
    struct ag_export *export;
    struct ag_call_tree tree;
    /* strings: numbers of texts. places: numbers of places, and of frames without a place (such as
     * "[no stack]"). allocations: numbers of the kinds of allocations, which are pairs of bytes and
     * stack; kind 0 is in the table as FIRST_KIND. */
    struct ag_numbering strings, places, allocations;
    struct first_block first;
    struct ag_image_row *images;
    size_t n_images;
    const struct ag_timeline_point *points;
    size_t n_points, next_point;
    uint64_t next_tick_ns, page_bytes;
};

static void put_numbers(FILE *out, char letter, uint64_t a, uint64_t b) {
    putc_unlocked(letter, out);
    putc_unlocked(' ', out);
    ag_put_hex(out, a);
    putc_unlocked(' ', out);
    ag_put_hex(out, b);
    putc_unlocked('\n', out);
}

static void put_one(FILE *out, char letter, uint64_t a) {
    putc_unlocked(letter, out);
    putc_unlocked(' ', out);
    ag_put_hex(out, a);
    putc_unlocked('\n', out);
}

/* Returns the number of a text, and writes the text if it is new. FUNCTION: the frame, if the text
 * is the name of its function; otherwise NULL. 0: TEXT is NULL or empty. */
static uint32_t string(struct heaptrack *all, const char *text, const struct ag_frame *function) {
    if (!text || !*text) {
        return 0;
    }
    bool is_new;
    const uint32_t id = ag_numbering_of(&all->strings, ag_numbering_pointer(text), 0, &is_new);
    if (is_new) {
        fputs("s ", all->export->out);
        if (function) {
            ag_put_function(all->export->out, function, 0, 0);
        } else {
            ag_put_plain(all->export->out, text, 0, 0);
        }
        putc_unlocked('\n', all->export->out);
    }
    return id + 1;
}

/* ---- places and stacks ---- */

static void put_place(struct heaptrack *all, const struct ag_stack_frame *at) {
    FILE *out = all->export->out;
    struct ag_place place = {.image = AG_NO_IMAGE};
    uint32_t ids[3 * 64]; /* function, file, line */
    size_t n = 0;
    const uint32_t mark = (uint32_t)at->frame;
    if (at->place != AG_NO_PLACE) {
        place = ag_profile_place(all->export->profile, at->place);
    } else {
        place.frames = &mark;
        place.n_frames = 1;
    }
    for (size_t i = 0; i < place.n_frames && n + 3 <= sizeof ids / sizeof ids[0]; i++) {
        const int64_t number = at->place != AG_NO_PLACE ? (int64_t)place.frames[i] : at->frame;
        const struct ag_frame *frame = ag_export_frame(all->export, number);
        ids[n++] = string(all, frame->label, frame);
        ids[n++] = string(all, frame->file, NULL);
        ids[n++] = frame->line;
    }
    const uint32_t module =
        place.image < all->n_images ? string(all, all->images[place.image].path, NULL) : 0;
    fputs("i ", out);
    ag_put_hex(out, place.address);
    putc_unlocked(' ', out);
    ag_put_hex(out, module);
    for (size_t i = 0; i < n; i++) {
        putc_unlocked(' ', out);
        ag_put_hex(out, ids[i]);
    }
    putc_unlocked('\n', out);
}

static void put_stacks(struct heaptrack *all) {
    for (size_t i = 0; i < all->tree.count; i++) {
        const struct ag_call_node *node = &all->tree.nodes[i];
        const struct ag_stack_frame *at = &node->frame;
        const uint64_t key = at->place != AG_NO_PLACE ? at->place : (uint64_t)at->frame;
        bool is_new;
        const uint32_t place = ag_numbering_of(&all->places, key, 0, &is_new);
        if (is_new) {
            put_place(all, at);
        }
        put_numbers(all->export->out, 't', (uint64_t)place + 1,
                    node->parent == AG_CALL_ROOT ? 0 : (uint64_t)node->parent + 1);
    }
}

/* ---- the history ---- */

static void write_time(struct heaptrack *all, uint64_t time_ns) {
    FILE *out = all->export->out;
    put_one(out, 'c', time_ns / NS_PER_MS);
    const size_t before = all->next_point;
    while (all->next_point < all->n_points && all->points[all->next_point].time_ns <= time_ns) {
        all->next_point++;
    }
    if (all->next_point > before && all->points[all->next_point - 1].rss_bytes > 0) {
        put_one(out, 'R', all->points[all->next_point - 1].rss_bytes / all->page_bytes);
    }
    all->next_tick_ns = time_ns / TICK_NS * TICK_NS + TICK_NS;
}

/* Returns the kind of the block of a step. Blocks with equal bytes and stack are interchangeable,
 * so the one that is freed last is written as the first block. */
static uint32_t kind_of(struct heaptrack *all, const struct ag_replay_step *step,
                        bool *ret_is_new) {
    struct first_block *first = &all->first;
    if (!first->is_written) {
        *first = (struct first_block){.bytes = step->bytes, .row = step->row, .is_written = true};
        return ag_numbering_of(&all->allocations, FIRST_KIND, FIRST_KIND, ret_is_new);
    }
    if (step->bytes == first->bytes && step->row == first->row) {
        if (step->is_death && first->n_others == 0) {
            return ag_numbering_of(&all->allocations, FIRST_KIND, FIRST_KIND, ret_is_new);
        }
        first->n_others += step->is_death ? UINT64_MAX : 1;
    }
    return ag_numbering_of(&all->allocations, step->bytes, step->row, ret_is_new);
}

static int put_step(void *context, const struct ag_replay_step *step) {
    struct heaptrack *all = context;
    bool is_new;
    if (step->time_ns >= all->next_tick_ns) {
        write_time(all, step->time_ns);
    }
    const uint32_t allocation = kind_of(all, step, &is_new);
    if (all->allocations.has_failed) {
        return -ENOMEM;
    }
    if (is_new) {
        put_numbers(all->export->out, 'a', step->bytes,
                    (uint64_t)all->tree.node_of_row[step->row] + 1);
    }
    put_one(all->export->out, step->is_death ? '-' : '+', allocation);
    /* ends the replay, for example if the disk is full */
    return ferror(all->export->out) ? -EIO : 0;
}

static int put_history(struct heaptrack *all) {
    FILE *out = all->export->out;
    const struct ag_profile_identity *identity = ag_profile_identity(all->export->profile);
    fputs("v 10400 2\nX ", out);
    if (identity->n_arguments > 0) {
        ag_put_command(all->export);
    } else {
        ag_put_plain(out, identity->exe ? identity->exe : "?", 0, 0);
    }
    char note[AG_EXPORT_NOTE_BYTES];
    if (ag_export_note(all->export, note)[0]) {
        fprintf(out, " [bytes are %s; calls are those of samples]", note);
    }
    putc_unlocked('\n', out);
    put_numbers(out, 'I', all->page_bytes, 0);
    put_stacks(all);
    const int r = ag_profile_replay(all->export->profile, put_step, all);
    write_time(all, ag_profile_summary(all->export->profile)->duration_ns);
    return r;
}

int ag_heaptrack_format(struct ag_export *export) {
    struct heaptrack all = {.export = export, .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
    int r = ag_call_tree_start(&all.tree, export, AG_CALL_PLACE);
    if (r < 0) {
        return r;
    }
    all.n_points = ag_profile_timeline(export->profile, &all.points);
    r = ag_profile_images(export->profile, &all.images, &all.n_images);
    r = r < 0 ? r : put_history(&all);
    r = r == -EIO ? 0 : r; /* the caller finds the error with ferror */
    free(all.images);
    ag_call_tree_end(&all.tree);
    ag_numbering_done(&all.strings);
    ag_numbering_done(&all.places);
    ag_numbering_done(&all.allocations);
    return r;
}
