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
 * A native frame covers the memory from its sp up to the sp of the next one. The native frames that
 * a managed function calls are called by the interpreter's native frame that runs the function. So
 * managed frames are placed between the native frame that contains their position and the native
 * frame that it called. The merged stack of the example, innermost first: draw, on_click, dispatch,
 * interpret, vm_call, main:3, interpret, main. This needs no knowledge of the interpreter's code. A
 * frame whose position lies in no native frame (the walk was incomplete, or the stack has changed)
 * is placed next to the previous managed frame of its source, and is never lost.
 *
 * The stack walker has a cache for the native frames. Programs often have the same stacks, so each
 * thread also caches some merged stacks, together with all inputs of the merge. If a stack is not
 * in this cache, every frame is interned again, at about 4 ns each. */
#include "managed_frames.h"

#include <errno.h>

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

/* A cached merge. The native node determines the native frames, their number and their root. */
enum { MERGES_BITS = 7, MERGED_FRAMES = 12 };
struct merge {
    /* the recording to which the node belongs, from ag_stacks_recording; 0: the entry is empty */
    uint32_t recording;
    uint32_t native;
    uint32_t site; /* site of the innermost frame, if it replaces that of the native node; else 0 */
    uint32_t n_managed;
    struct merged_frame {
        uint32_t function, line, place;
    } managed[MERGED_FRAMES];
    uint32_t node;
};

/* Memory for one walk. Each thread has its own, mapped when the thread first has a source. */
struct ag_walk_scratch {
    struct merge merges[1 << MERGES_BITS];
    struct ag_walked_frame *natives;  /* [depth] */
    struct ag_managed_frame *managed; /* [depth] */
    uint32_t *places;                 /* [depth]: index of the native frame of managed[i] */
    /* number of elements of the three arrays: the depth of the recording when they were mapped */
    size_t depth;
};

static struct ag_walk_scratch *scratch_of(struct ag_thread *thread) {
    const size_t depth = ag_recorder.depth;
    if (thread->scratch && thread->scratch->depth >= depth) {
        return thread->scratch;
    }
    const size_t bytes = sizeof(struct ag_walk_scratch) +
                         depth * (sizeof(struct ag_walked_frame) + sizeof(struct ag_managed_frame) +
                                  sizeof(uint32_t));
    struct ag_walk_scratch *scratch = ag_recorder_map(bytes);
    if (!scratch) {
        return NULL;
    }
    scratch->natives = (struct ag_walked_frame *)(scratch + 1);
    scratch->managed = (struct ag_managed_frame *)(scratch->natives + depth);
    scratch->places = (uint32_t *)(scratch->managed + depth);
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
    const uint32_t said =
        source->walk(source->context, scratch->natives, n_natives, scratch->managed + n, most);
    const uint32_t end = n + (said < most ? said : most);
    uint32_t place = 0;
    for (uint32_t i = n; i < end; i++) {
        const uintptr_t position = scratch->managed[i].position;
        const uint32_t found =
            position != 0 ? frame_at(scratch->natives, n_natives, place, position) : n_natives;
        place = found < n_natives ? found : place;
        scratch->places[i] = place;
    }
    return end;
}

/* Sorts the managed frames by place, stably. An insertion sort is fast, because the frames of each
 * source are in order already, and there are few sources. */
static void sort_by_place(const struct ag_walk_scratch *scratch, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        const struct ag_managed_frame frame = scratch->managed[i];
        const uint32_t place = scratch->places[i];
        uint32_t at = i;
        for (; at > 0 && scratch->places[at - 1] > place; at--) {
            scratch->managed[at] = scratch->managed[at - 1];
            scratch->places[at] = scratch->places[at - 1];
        }
        scratch->managed[at] = frame;
        scratch->places[at] = place;
    }
}

static uint32_t site_of(const struct ag_managed_frame *frame) {
    enum { LINE_MOST = (1 << 24) - 1 };
    const uint32_t line = frame->line <= LINE_MOST ? frame->line : LINE_MOST;
    return ag_site_intern(&ag_recorder.space->tree, ag_managed_pc(frame->function, line),
                          AG_IMAGE_MANAGED);
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
                     uint32_t recording, uint32_t native, uint32_t site, uint32_t n_managed) {
    bool is_same = merge->recording == recording && merge->native == native &&
                   merge->site == site && merge->n_managed == n_managed;
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
                       uint32_t node) {
    merge->recording = recording;
    merge->native = native;
    merge->site = site;
    merge->n_managed = n_managed;
    merge->node = node;
    for (uint32_t i = 0; i < n_managed; i++) {
        merge->managed[i] = (struct merged_frame){.function = scratch->managed[i].function,
                                                  .line = scratch->managed[i].line,
                                                  .place = scratch->places[i]};
    }
}

uint32_t ag_managed_push(uint32_t stack, const struct ag_managed_frame *frames, uint32_t n) {
    uint32_t node = stack;
    while (n-- > 0 && node != AG_ROOT_NOT_KEPT) {
        const uint32_t site = site_of(&frames[n]);
        node = site != 0 ? ag_stack_with_leaf(node, site) : (uint32_t)AG_ROOT_NOT_KEPT;
    }
    return node;
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
    if (n_managed == 0 && site == 0) {
        return native;
    }
    sort_by_place(scratch, n_managed);
    const uint32_t recording = ag_stacks_recording();
    struct merge *merge =
        n_managed <= MERGED_FRAMES ? place_of_merge(scratch, native, n_managed) : NULL;
    if (merge && AG_LIKELY(merge_is(merge, scratch, recording, native, site, n_managed))) {
        return merge->node;
    }
    scratch->natives[0].site = site != 0 ? site : scratch->natives[0].site;
    const uint32_t merged = intern_all(scratch, n_natives, n_managed, root);
    if (merge && merged != AG_ROOT_NOT_KEPT) {
        keep_merge(merge, scratch, recording, native, site, n_managed, merged);
    }
    return merged;
}
