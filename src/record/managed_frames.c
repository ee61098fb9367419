/* managed_frames.c: merges native frames with the frames of virtual machines (managed frames). A
 * source is a function that lists the managed frames of a thread; a program, or an adapter (the
 * code for one runtime), registers it.
 *
 *     native, by the walker     sp       managed, by the source     position
 *       draw                    7f10                                             innermost
 *       interpret               7f40       on_click  line 12         7f58
 *                                          dispatch  line 80         7f58
 *       vm_call                 7fa0
 *       interpret               7fc0       main      line 3          7fd8
 *       main                    7ff0                                             outermost
 *
 * A native frame covers the memory from its sp up to the sp of the next outer frame. The native
 * frames that a managed function calls are called by the interpreter's native frame that runs the
 * function. So managed frames are placed between the native frame that contains their position and
 * the native frame that it called. The merged stack of the example, innermost first: draw,
 * on_click, dispatch, interpret, vm_call, main:3, interpret, main. This needs no knowledge of the
 * interpreter's code. A frame whose position lies in no native frame (the walk was incomplete, or
 * the stack has changed) is placed next to the previous managed frame of its source, and is never
 * lost.
 *
 * The stack walker has a cache for the native frames. Programs often have the same stacks, so each
 * thread also caches some merged stacks, together with all inputs of the merge. If a stack is not
 * in this cache, every frame is interned again, at about 4 ns each.
 *
 * For deep recursion a source lists runs (managed_frames.h), which keep the nodes of their frames.
 * Then a stack consists of runs and of segments. A segment is the native frames between two runs.
 * Each thread caches the nodes of segments, so the cost of a walk does not depend on the depth. */
#include "managed_frames.h"

#include <errno.h>

#include "base/pages.h"
#include "base/stack_tree_fast.h"
#include "format/decode.h"
#include "self_check.h"
#include "unwind/unwind_space.h"

static __thread struct {
    struct {
        const void *key;
        struct ag_frame_source source;
    } rows[AG_FRAME_SOURCES_MOST];
    uint32_t n;
} sources;

bool ag_frame_sources_are_there(void) {
    return sources.n != 0;
}

int ag_frame_source_set(const void *key, const struct ag_frame_source *source) {
    uint32_t at = 0;
    while (at < sources.n && sources.rows[at].key != key) {
        at++;
    }
    if (at == AG_FRAME_SOURCES_MOST) {
        return source->walk ? -ENOSPC : 0;
    }
    if (!source->walk) {
        /* moves the last source into the free row; a signal handler may see this source twice */
        if (at < sources.n) {
            sources.rows[at] = sources.rows[sources.n - 1];
            atomic_signal_fence(memory_order_seq_cst);
            sources.n--;
        }
    } else {
        sources.rows[at].source = *source;
        sources.rows[at].key = key;
        atomic_signal_fence(memory_order_seq_cst);
        sources.n += at == sources.n;
    }
    ag_thread_reopen();
    return 0;
}

/* ---- memory ---- */

/* A cached merge. The native node determines the native frames and their number. */
enum { MERGES_BITS = 7, MERGED_FRAMES = 12 };
struct merge {
    /* the recording to which the node belongs, from ag_stacks_recording; 0: the entry is empty */
    uint32_t recording;
    uint32_t native;
    uint32_t site; /* site of the innermost frame, if it replaces that of the native node; else 0 */
    uint32_t n_managed;
    enum ag_root root;
    struct merged_frame {
        uint32_t function, line, place;
    } managed[MERGED_FRAMES];
    uint32_t node;
};

/* A cached segment: the native frames from index `from` - 1 inward to index `to` of the stack with
 * the node `native`. The caller of the segment is the node `caller`. */
enum { SEGMENTS_BITS = 7 };
struct segment {
    uint32_t recording; /* as in struct merge */
    uint32_t native, caller, from, to;
    uint32_t site; /* site of frame 0, if it differs from the site of the native node; else 0 */
    uint32_t node; /* node of frame `to` */
};

/* Memory for one walk. Each thread has its own, mapped when the thread first has a source. */
struct ag_walk_scratch {
    struct merge merges[1 << MERGES_BITS];
    struct segment segments[1 << SEGMENTS_BITS];
    struct ag_walked_frame *natives;  /* [depth] */
    struct ag_managed_frame *managed; /* [depth] */
    struct ag_frame_run **runs;       /* [depth]: the run that managed[i] stands for, or NULL;
                                       * all are NULL between two walks */
    uint32_t *places;                 /* [depth]: index of the native frame of managed[i] */
    /* number of elements of the four arrays: the depth of the recording when they were mapped */
    size_t depth;
};

static struct ag_walk_scratch *scratch_of(struct ag_thread *thread) {
    const size_t depth = ag_recorder.depth;
    if (thread->scratch && thread->scratch->depth >= depth) {
        return thread->scratch;
    }
    const size_t bytes = sizeof(struct ag_walk_scratch) +
                         depth * (sizeof(struct ag_walked_frame) + sizeof(struct ag_managed_frame) +
                                  sizeof(struct ag_frame_run *) + sizeof(uint32_t));
    struct ag_walk_scratch *scratch = ag_recorder_map(bytes);
    if (!scratch) {
        return NULL;
    }
    scratch->natives = (struct ag_walked_frame *)(scratch + 1);
    scratch->managed = (struct ag_managed_frame *)(scratch->natives + depth);
    scratch->runs = (struct ag_frame_run **)(scratch->managed + depth);
    scratch->places = (uint32_t *)(scratch->runs + depth);
    scratch->depth = depth;
    thread->scratch = scratch;
    return scratch;
}

/* ---- merging ---- */

/* The index of the native frame that contains the address, searched from index FIRST outward;
 * n_natives: none. */
static uint32_t frame_at(const struct ag_walked_frame *natives, uint32_t n_natives, uint32_t first,
                         uintptr_t address) {
    for (uint32_t i = first; i < n_natives; i++) {
        const uintptr_t high = i + 1 < n_natives ? natives[i + 1].sp : UINTPTR_MAX;
        if (natives[i].sp <= address && address < high) {
            return i;
        }
    }
    return n_natives;
}

/* Appends the frames of one source to the N frames of earlier sources. Returns the new number. */
static uint32_t source_append_frames(const struct ag_frame_source *source,
                                     const struct ag_walk_scratch *scratch, uint32_t n_natives,
                                     uint32_t n) {
    const uint32_t most = ag_recorder.depth - n;
    const uint32_t said = source->walk(source->context, scratch->natives, n_natives,
                                       scratch->managed + n, scratch->runs + n, most);
    const uint32_t end = n + (said < most ? said : most);
    uint32_t place = 0;
    for (uint32_t i = n; i < end; i++) {
        const uintptr_t position = scratch->managed[i].position;
        const uint32_t found =
            position != 0 ? frame_at(scratch->natives, n_natives, place, position) : n_natives;
        place = position == AG_OUTERMOST_POSITION ? n_natives - 1
                : found < n_natives               ? found
                                                  : place;
        scratch->places[i] = place;
    }
    return end;
}

/* Sorts the managed frames by place, stably. An insertion sort is fast, because the frames of each
 * source are in order already, and there are few sources. */
static void sort_by_place(const struct ag_walk_scratch *scratch, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        const struct ag_managed_frame frame = scratch->managed[i];
        struct ag_frame_run *run = scratch->runs[i];
        const uint32_t place = scratch->places[i];
        uint32_t at = i;
        for (; at > 0 && scratch->places[at - 1] > place; at--) {
            scratch->managed[at] = scratch->managed[at - 1];
            scratch->runs[at] = scratch->runs[at - 1];
            scratch->places[at] = scratch->places[at - 1];
        }
        scratch->managed[at] = frame;
        scratch->runs[at] = run;
        scratch->places[at] = place;
    }
}

static uint32_t managed_site(uint32_t function, uint32_t line) {
    enum { LINE_MOST = (1 << 24) - 1 };
    return ag_site_intern(&ag_recorder.space->tree,
                          ag_managed_pc(function, line <= LINE_MOST ? line : LINE_MOST),
                          AG_IMAGE_MANAGED);
}

static uint32_t site_of(const struct ag_managed_frame *frame) {
    return managed_site(frame->function, frame->line);
}

/* Interns all frames from the outermost inward. Returns the node of the innermost frame;
 * AG_ROOT_NOT_KEPT: there is no memory for one of the frames. */
static uint32_t intern_all(const struct ag_walk_scratch *scratch, uint32_t n_natives,
                           uint32_t n_managed, enum ag_root root) {
    struct ag_stack_tree *tree = &ag_recorder.space->tree;
    const uint32_t total = n_natives + n_managed;
    uint32_t left_out = total > ag_recorder.depth ? total - ag_recorder.depth : 0;
    uint32_t node = left_out ? (uint32_t)AG_ROOT_CUT : (uint32_t)root;
    uint32_t managed = n_managed;
    for (uint32_t i = n_natives; i-- > 0;) {
        if (left_out > 0) {
            left_out--;
        } else {
            node = ag_node_intern_fast(tree, node, scratch->natives[i].site);
        }
        for (; managed > 0 && scratch->places[managed - 1] == i && node != 0; managed--) {
            if (left_out > 0) {
                left_out--;
                continue;
            }
            const uint32_t site = site_of(&scratch->managed[managed - 1]);
            node = site != 0 ? ag_node_intern_fast(tree, node, site) : 0;
        }
        if (node == 0) {
            return AG_ROOT_NOT_KEPT;
        }
    }
    return node;
}

/* ---- merging with runs ---- */

static uint32_t run_site(struct ag_run_frame *frame) {
    if (frame->site == 0) {
        frame->site = managed_site(frame->function, frame->line);
    }
    return frame->site;
}

/* Called in a recursion that is deeper than a recorded stack may be, where each further call leaves
 * out one more of the outermost frames. If the frames from FIRST on have the same sites as those
 * from run->first on, they also have the same nodes. So nodes are copied, up to the first site that
 * differs. */
static void run_shift(struct ag_frame_run *run, uint32_t first) {
    struct ag_run_frame *to = run->frames + first, *from = run->frames + run->first;
    const uint32_t n_to = run->n > first ? run->n - first : 0, n_from = run->n_known - run->first;
    const uint32_t most = n_to < n_from ? n_to : n_from;
    uint32_t n = 0;
    while (n < most && run_site(&to[n]) != 0 && to[n].site == from[n].site) {
        n++;
    }
    for (uint32_t i = 0; i < n; i++) { /* the ranges overlap */
        const uint32_t at = to < from ? i : n - 1 - i;
        to[at].node = from[at].node;
    }
    run->first = first;
    run->n_known = first + n;
}

/* Adds the frames of a run, except its FIRST outermost frames, to the stack *NODE. Returns false if
 * there is no memory for a frame. */
static bool run_push(struct ag_frame_run *run, uint32_t first, uint32_t *node) {
    if (run->base == *node && run->first != first && run->n_known > run->first) {
        run_shift(run, first);
    }
    if (run->base != *node || run->first != first || run->n_known < first) {
        run->base = *node;
        run->n_known = run->first = first;
    }
    if (run->n_known > first) {
        *node = run->frames[run->n_known - 1].node;
    }
    for (uint32_t i = run->n_known; i < run->n; i++) {
        struct ag_run_frame *frame = &run->frames[i];
        const uint32_t site = run_site(frame);
        const uint32_t made =
            site != 0 ? ag_node_intern_fast(&ag_recorder.space->tree, *node, site) : 0;
        if (made == 0) {
            return false;
        }
        frame->node = *node = made;
        run->n_known = i + 1;
    }
    return true;
}

/* The stack that scratch->natives describes. */
struct native_stack {
    uint32_t node, site; /* as in struct merge */
    uint32_t recording;
};

/* Adds the native frames from index FROM - 1 inward to index TO to the stack *NODE. Returns false
 * if there is no memory. */
static bool segment_push(struct ag_walk_scratch *scratch, const struct native_stack *stack,
                         uint32_t from, uint32_t to, uint32_t *node) {
    const uint32_t site = to == 0 ? stack->site : 0;
    const uint64_t key = ((uint64_t)stack->node << 32 | *node) + ((uint64_t)from << 16 | to) +
                         (uint64_t)site * UINT64_C(0xd6e8feb86659fd93);
    struct segment *known =
        &scratch->segments[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SEGMENTS_BITS)];
    if (AG_LIKELY(known->recording == stack->recording && known->native == stack->node &&
                  known->caller == *node && known->from == from && known->to == to &&
                  known->site == site)) {
        *node = known->node;
        return true;
    }
    const uint32_t caller = *node;
    for (uint32_t i = from; i-- > to;) {
        const uint32_t made = ag_node_intern_fast(
            &ag_recorder.space->tree, *node, i == 0 && site != 0 ? site : scratch->natives[i].site);
        if (made == 0) {
            return false;
        }
        *node = made;
    }
    if (stack->node != AG_ROOT_NOT_KEPT) {
        *known = (struct segment){.recording = stack->recording,
                                  .native = stack->node,
                                  .caller = caller,
                                  .from = from,
                                  .to = to,
                                  .site = site,
                                  .node = *node};
    }
    return true;
}

static uint32_t frames_in(const struct ag_walk_scratch *scratch, uint32_t item) {
    return scratch->runs[item] ? scratch->runs[item]->n : 1;
}

/* Does the same as intern_all if some of the N_ITEMS managed frames stand for runs. */
static uint32_t intern_runs(struct ag_walk_scratch *scratch, const struct native_stack *stack,
                            uint32_t n_natives, uint32_t n_items, enum ag_root root) {
    uint32_t total = n_natives;
    for (uint32_t i = 0; i < n_items; i++) {
        total += frames_in(scratch, i);
    }
    uint32_t left_out = total > ag_recorder.depth ? total - ag_recorder.depth : 0;
    uint32_t node = left_out ? (uint32_t)AG_ROOT_CUT : (uint32_t)root;
    uint32_t end = n_natives;
    bool has_memory = true;
    for (uint32_t item = n_items; item-- > 0 && has_memory;) {
        const uint32_t place = scratch->places[item];
        if (place < end) {
            const uint32_t skipped = left_out < end - place ? left_out : end - place;
            left_out -= skipped;
            has_memory = segment_push(scratch, stack, end - skipped, place, &node);
            end = place;
        }
        const uint32_t n = frames_in(scratch, item);
        const uint32_t skipped = left_out < n ? left_out : n;
        left_out -= skipped;
        if (has_memory && skipped < n && scratch->runs[item]) {
            has_memory = run_push(scratch->runs[item], skipped, &node);
        } else if (has_memory && skipped < n) {
            const uint32_t site = site_of(&scratch->managed[item]);
            node = site != 0 ? ag_node_intern_fast(&ag_recorder.space->tree, node, site) : 0;
            has_memory = node != 0;
        }
    }
    const uint32_t skipped = left_out < end ? left_out : end;
    has_memory = has_memory && segment_push(scratch, stack, end - skipped, 0, &node);
    return has_memory ? node : (uint32_t)AG_ROOT_NOT_KEPT;
}

/* In the debug mode of self_check.h: compares MERGED, the node of a stack with runs, with the node
 * that intern_all returns for all frames. */
AG_COLD static void check_runs(const struct ag_walk_scratch *scratch,
                               const struct native_stack *stack, uint32_t n_natives,
                               uint32_t n_items, enum ag_root root, uint32_t merged) {
    struct ag_walk_scratch whole = {.natives = scratch->natives};
    const size_t most = ag_recorder.depth;
    const size_t bytes = most * (sizeof(*whole.managed) + sizeof(*whole.places));
    uint32_t n = 0;
    whole.managed = ag_pages_map(bytes);
    if (!whole.managed) {
        return;
    }
    whole.places = (uint32_t *)(whole.managed + most);
    for (uint32_t item = 0; item < n_items; item++) {
        const struct ag_frame_run *run = scratch->runs[item];
        for (uint32_t i = frames_in(scratch, item); i-- > 0 && n < most; n++) {
            whole.places[n] = scratch->places[item];
            whole.managed[n] = run ? (struct ag_managed_frame){.function = run->frames[i].function,
                                                               .line = run->frames[i].line}
                                   : scratch->managed[item];
        }
    }
    whole.natives[0].site = stack->site != 0 ? stack->site : whole.natives[0].site;
    ag_self_check_count(intern_all(&whole, n_natives, n, root) == merged);
    ag_pages_unmap(whole.managed, bytes);
}

/* ---- the cache of merged stacks ---- */

static struct merge *place_of_merge(struct ag_walk_scratch *scratch, uint32_t native,
                                    uint32_t n_managed) {
    uint64_t key = native;
    for (uint32_t i = 0; i < n_managed; i++) {
        const struct ag_managed_frame *frame = &scratch->managed[i];
        key = key * UINT64_C(0xd6e8feb86659fd93) + ((uint64_t)frame->function << 32 | frame->line);
    }
    return &scratch->merges[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - MERGES_BITS)];
}

static bool merge_is(const struct merge *merge, const struct ag_walk_scratch *scratch,
                     uint32_t recording, uint32_t native, uint32_t site, uint32_t n_managed,
                     enum ag_root root) {
    bool is_same = merge->recording == recording && merge->native == native &&
                   merge->site == site && merge->n_managed == n_managed && merge->root == root;
    for (uint32_t i = 0; i < n_managed && is_same; i++) {
        const struct merged_frame *known = &merge->managed[i];
        const struct ag_managed_frame *frame = &scratch->managed[i];
        is_same = known->function == frame->function && known->line == frame->line &&
                  known->place == scratch->places[i];
    }
    return is_same;
}

static void keep_merge(struct merge *merge, const struct ag_walk_scratch *scratch,
                       uint32_t recording, uint32_t native, uint32_t site, uint32_t n_managed,
                       enum ag_root root, uint32_t node) {
    merge->recording = recording;
    merge->native = native;
    merge->site = site;
    merge->n_managed = n_managed;
    merge->root = root;
    merge->node = node;
    for (uint32_t i = 0; i < n_managed; i++) {
        merge->managed[i] = (struct merged_frame){.function = scratch->managed[i].function,
                                                  .line = scratch->managed[i].line,
                                                  .place = scratch->places[i]};
    }
}

/* The node of the stack that is merged from the native frames and the sorted managed frames. site:
 * as in struct merge. */
static uint32_t merge_all(struct ag_walk_scratch *scratch, uint32_t native, uint32_t site,
                          uint32_t n_natives, uint32_t n_managed, enum ag_root root) {
    const uint32_t recording = ag_stacks_recording();
    bool has_runs = false;
    for (uint32_t i = 0; i < n_managed; i++) {
        has_runs |= scratch->runs[i] != NULL;
    }
    if (has_runs) {
        const struct native_stack stack = {native, site, recording};
        const uint32_t merged = intern_runs(scratch, &stack, n_natives, n_managed, root);
        if (AG_UNLIKELY(ag_self_check_is_on())) {
            check_runs(scratch, &stack, n_natives, n_managed, root, merged);
        }
        for (uint32_t i = 0; i < n_managed; i++) {
            scratch->runs[i] = NULL;
        }
        return merged;
    }
    struct merge *merge =
        n_managed <= MERGED_FRAMES ? place_of_merge(scratch, native, n_managed) : NULL;
    if (merge && AG_LIKELY(merge_is(merge, scratch, recording, native, site, n_managed, root))) {
        return merge->node;
    }
    scratch->natives[0].site = site != 0 ? site : scratch->natives[0].site;
    const uint32_t merged = intern_all(scratch, n_natives, n_managed, root);
    if (merge && merged != AG_ROOT_NOT_KEPT) {
        keep_merge(merge, scratch, recording, native, site, n_managed, root, merged);
    }
    return merged;
}

uint32_t ag_managed_push(uint32_t stack, const struct ag_managed_frame *frames, uint32_t n) {
    uint32_t node = stack;
    while (n-- > 0 && node != AG_ROOT_NOT_KEPT) {
        const uint32_t site = site_of(&frames[n]);
        node = site != 0 ? ag_stack_with_leaf(node, site) : (uint32_t)AG_ROOT_NOT_KEPT;
    }
    return node;
}

/* How the merged stack ends. A stack is complete if a source lists its outermost function and the
 * walk of native frames ended at generated code, which is in no image. */
static enum ag_root root_of(const struct ag_walk_scratch *scratch, uint32_t n_natives,
                            uint32_t n_managed, enum ag_root root) {
    uint64_t pc;
    uint32_t image;
    for (uint32_t i = n_managed; i-- > 0 && root == AG_ROOT_INCOMPLETE;) {
        if (scratch->managed[i].position == AG_OUTERMOST_POSITION &&
            ag_stack_tree_site(&ag_recorder.space->tree, scratch->natives[n_natives - 1].site, &pc,
                               &image) &&
            image == 0) {
            return AG_ROOT_COMPLETE;
        }
    }
    return root;
}

uint32_t ag_managed_walk(struct ag_thread *thread, const uintptr_t *sp, uintptr_t rbp,
                         uintptr_t pc) {
    struct ag_walk_scratch *scratch = scratch_of(thread);
    enum ag_root root;
    uint32_t n_natives, n_managed = 0;
    if (!scratch) {
        return AG_ROOT_NOT_KEPT;
    }
    const uint32_t native = ag_walker_capture_frames(thread->walker, ag_recorder.space, sp, rbp,
                                                     scratch->natives, &n_natives, &root);
    if (ag_self_check_is_on()) {
        ag_self_check_stack(native, sp);
    }
    if (n_natives == 0) {
        return native;
    }
    for (uint32_t i = 0; i < sources.n; i++) {
        n_managed = source_append_frames(&sources.rows[i].source, scratch, n_natives, n_managed);
    }
    const uint32_t site = pc != 0 ? AG_PC_SITE(ag_pc_find_fast(ag_recorder.space, pc)) : 0;
    uint32_t stack = native;
    if (n_managed != 0 || site != 0) {
        sort_by_place(scratch, n_managed);
        root = root_of(scratch, n_natives, n_managed, root);
        stack = merge_all(scratch, native, site, n_natives, n_managed, root);
    }
    for (uint32_t i = 0; i < sources.n; i++) {
        if (sources.rows[i].source.end_walk) {
            sources.rows[i].source.end_walk(sources.rows[i].source.context, scratch->natives);
        }
    }
    return stack;
}
