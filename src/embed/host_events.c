/* host_events.c: writes the events that a program reports for its own heaps into the recorder's
 * streams (one stream for each thread), like the events of malloc. Also records the program's
 * collections, marks and runtimes, and sets the label of a thread.
 *
 * Each exported function here has a stack frame of its own: the walk of the caller's stack begins
 * at the return address in that frame. Conditions that the inline functions of allogram.h have
 * checked (is there a recorder, is the event wanted) are not checked again, but the heap is looked
 * up: a handle is a number that the program may invent. */
#include <stdatomic.h>
#include <string.h>

#include "allogram/allogram.h"
#include "base/raw_syscall.h"
#include "format/decode.h"
#include "host_events.h"
#include "host_frames.h"
#include "host_heaps.h"
#include "host_rate.h"
#include "late_types.h"
#include "record/event_fast.h"
#include "record/managed_frames.h"
#include "record/raw_clock.h"
#include "tracker.h"

volatile uint32_t allogram_mode_;
volatile long allogram_left_offset_;
__thread uint64_t ag_host_left;

/* The thread's label (allogram_set_label). It stays valid in later recordings; the number that a
 * recording gives to the label in its stack tree (the site) does not. */
static __thread allogram_label label_now;

#define CALLER_SP() ((const uintptr_t *)__builtin_frame_address(0) + 1)
#define CALLER_RBP() (*(const uintptr_t *)__builtin_frame_address(0))

/* The largest size of a block: that of the address space. The sum of 65,536 such sizes does not
 * overflow. */
#define BYTES_MOST ((UINT64_C(1) << 48) - 1)

/* Changes the mode, and stores the offset of ag_host_left from the thread pointer, which is the
 * same in all threads, for the inline functions of allogram.h. */
void ag_host_mode(uint32_t set, uint32_t clear) {
    const char *thread;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    allogram_left_offset_ = (const char *)&ag_host_left - thread;
    __atomic_fetch_or(&allogram_mode_, set, __ATOMIC_RELAXED);
    __atomic_fetch_and(&allogram_mode_, ~clear, __ATOMIC_RELAXED);
}

/* Handles the state of a thread that was in the middle of an event when a new recording began
 * (section 3 of record/process.c), and a label that has no site in this recording yet. */
AG_COLD static void refresh_state(struct ag_thread *thread) {
    if (thread->recording != ag_recorder.recording && ag_thread_is_idle(thread)) {
        thread->gate = AG_GATE_ABSENT;
    }
    if (label_now != 0) {
        ag_record_set_label_site(ag_defined_names_site(&ag_host.labels, label_now));
    }
}

AG_FAST void get_ready(void) {
    struct ag_thread *thread = ag_thread_current;
    if (AG_UNLIKELY(thread->recording != ag_recorder.recording ||
                    (label_now != 0) != (thread->label_site != 0))) {
        refresh_state(thread);
    }
}

void ag_host_get_ready(void) {
    get_ready();
}

AG_FAST const struct ag_host_heap *wanted_heap(allogram_heap heap) {
    get_ready();
    return ag_host_heap(heap);
}

static bool is_recording_events(void) {
    return allogram_mode_ & ALLOGRAM_TELLS_;
}

static bool has_tracker(void) {
    return allogram_mode_ & (ALLOGRAM_SAMPLES_ | ALLOGRAM_EACH_);
}

/* Whether a block of this type is recorded. The recorder checks the filter's other terms, and
 * remembers the block until it is freed. */
static bool is_wanted_type(allogram_type type) {
    return is_recording_events() && ag_host_takes_type(type);
}

static size_t counted_bytes(size_t bytes) {
    return bytes <= BYTES_MOST ? bytes : BYTES_MOST;
}

/* Records the allocation, unless the recording's sampler does not select the block. */
static void alloc_at(const uintptr_t *sp, uintptr_t rbp, allogram_heap heap,
                     const struct allogram_block *block) {
    uint64_t interval_bytes = 0;
    if ((allogram_mode_ & ALLOGRAM_RATED_) &&
        !ag_host_rate_selects(counted_bytes(block->bytes), &interval_bytes)) {
        return;
    }
    struct ag_managed_frame frames[AG_HOST_BLOCK_FRAMES_MOST];
    const bool is_typed_late = ag_host_heap(heap)->has_late_types && block->type == 0;
    struct ag_block_site block_site = {.stack = 0};
    const struct ag_typed_place place = {.site = ag_defined_names_site(&ag_host.types, block->type),
                                         .pc = block->pc,
                                         .frames = frames,
                                         .n_frames = ag_host_frames_of(block, frames),
                                         .ret_site = is_typed_late ? &block_site : NULL,
                                         .chosen_interval_bytes = interval_bytes};
    const size_t bytes = counted_bytes(block->bytes);
    ag_record_alloc_typed(sp, rbp, (uintptr_t)block->address, bytes, heap, &place);
    if (is_typed_late && block_site.stack != 0) {
        ag_late_types_born(heap, block->address, bytes, &block_site);
    }
}

#define CALLER() (&(struct ag_host_caller){CALLER_SP(), CALLER_RBP()})

void ag_host_alloc(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address,
                   size_t bytes, allogram_type type) {
    const struct ag_host_heap *found = wanted_heap(heap);
    const struct allogram_block block = {.address = address, .bytes = bytes, .type = type};
    if (found && !found->is_backing) {
        if (is_wanted_type(type)) {
            alloc_at(caller->sp, caller->rbp, heap, &block);
        }
        if (has_tracker()) {
            ag_tracker_alloc(heap, address, bytes, type);
        }
    }
}

void allogram_tell_alloc_(allogram_heap heap, uint64_t address, size_t bytes, allogram_type type) {
    ag_host_alloc(CALLER(), heap, address, bytes, type);
}

void allogram_tell_allocs_(allogram_heap heap, const struct allogram_block *blocks,
                           size_t n_blocks) {
    const struct ag_host_heap *found = wanted_heap(heap);
    if (!found || found->is_backing) {
        return;
    }
    for (size_t i = 0; i < n_blocks && is_recording_events(); i++) {
        if (is_wanted_type(blocks[i].type)) {
            alloc_at(CALLER_SP(), CALLER_RBP(), heap, &blocks[i]);
        }
    }
    const uint32_t version = ag_tracker_version();
    for (size_t i = 0; i < n_blocks && has_tracker() && ag_tracker_version() == version; i++) {
        ag_tracker_alloc(heap, blocks[i].address, blocks[i].bytes, blocks[i].type);
    }
}

static void end_block(enum ag_word_kind kind, const struct ag_host_caller *caller,
                      allogram_heap heap, uint64_t address) {
    const struct ag_host_heap *found = wanted_heap(heap);
    if (found && !found->is_backing) {
        if (is_recording_events()) {
            if (found->has_late_types) {
                ag_late_types_died(heap, address);
            }
            ag_record_free_fast(kind, (uintptr_t)address, heap, caller->sp, caller->rbp);
        }
        if (allogram_mode_ & ALLOGRAM_FREES_) {
            ag_tracker_free(heap, address);
        }
    }
}

void ag_host_free(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address) {
    end_block(AG_WORD_FREE, caller, heap, address);
}

void allogram_tell_free_(allogram_heap heap, uint64_t address) {
    ag_host_free(CALLER(), heap, address);
}

void allogram_tell_collect_(allogram_heap heap, uint64_t address) {
    end_block(AG_WORD_COLLECT, CALLER(), heap, address);
}

void allogram_tell_move_(allogram_heap heap, uint64_t address, uint64_t new_address) {
    const struct ag_host_heap *found = wanted_heap(heap);
    if (!found || found->is_backing) {
        return;
    }
    if (is_recording_events()) {
        ag_record_move((uintptr_t)address, (uintptr_t)new_address, heap);
        if (found->has_late_types) {
            ag_late_types_moved(heap, address, new_address);
        }
    }
    if (allogram_mode_ & ALLOGRAM_FREES_) {
        ag_tracker_move(heap, address, new_address);
    }
}

void allogram_tell_promote_(allogram_heap heap, uint64_t address) {
    const struct ag_host_heap *found = wanted_heap(heap);
    if (!found || found->is_backing) {
        return;
    }
    if (is_recording_events()) {
        ag_record_promote((uintptr_t)address, heap);
    }
    if (allogram_mode_ & ALLOGRAM_FREES_) {
        ag_tracker_promote(heap, address);
    }
}

int allogram_tell_block_type_(allogram_heap heap, uint64_t address, allogram_type type) {
    const struct ag_host_heap *found = wanted_heap(heap);
    const uint32_t site = found && is_recording_events() && ag_recorder_is_active()
                              ? ag_defined_names_site(&ag_host.types, type)
                              : 0;
    return site != 0 && found->has_late_types && ag_late_types_report(heap, address, site);
}

void ag_host_realloc_begin(const struct ag_host_caller *caller, allogram_heap heap,
                           uint64_t address) {
    const struct ag_host_heap *found = wanted_heap(heap);
    if (found && !found->is_backing && is_recording_events()) {
        if (found->has_late_types) {
            ag_late_types_died(heap, address);
        }
        ag_record_free_fast(AG_WORD_REALLOC_FREE, (uintptr_t)address, heap, caller->sp,
                            caller->rbp);
    }
}

void ag_host_realloc_failed(const struct ag_host_caller *caller, allogram_heap heap,
                            uint64_t address) {
    const struct ag_host_heap *found = wanted_heap(heap);
    if (found && !found->is_backing && is_recording_events()) {
        ag_record_free_fast(AG_WORD_UNDO_FREE, (uintptr_t)address, heap, caller->sp, caller->rbp);
    }
}

void ag_host_realloc_end(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address,
                         const struct allogram_block *block) {
    const struct ag_host_heap *found = wanted_heap(heap);
    if (!found || found->is_backing) {
        return;
    }
    if (is_wanted_type(block->type)) {
        alloc_at(caller->sp, caller->rbp, heap, block);
    }
    if (allogram_mode_ & ALLOGRAM_FREES_) {
        ag_tracker_free(heap, address);
    }
    if (has_tracker()) {
        ag_tracker_alloc(heap, block->address, block->bytes, block->type);
    }
}

void allogram_tell_realloc_(allogram_heap heap, uint64_t address, uint64_t new_address,
                            size_t bytes, allogram_type type) {
    const struct ag_host_caller caller = {CALLER_SP(), CALLER_RBP()};
    const struct allogram_block block = {.address = new_address, .bytes = bytes, .type = type};
    ag_host_realloc_begin(&caller, heap, address);
    ag_host_realloc_end(&caller, heap, address, &block);
}

/* Each heap has an address space of its own (ag_host_place), for its mappings and for its
 * blocks. */
void allogram_tell_map_(allogram_heap heap, uint64_t address, size_t bytes) {
    if (wanted_heap(heap)) {
        ag_record_map(CALLER_SP(), CALLER_RBP(), heap, ag_host_place(heap, address), bytes, 0, 0);
    }
}

void allogram_tell_unmap_(allogram_heap heap, uint64_t address, size_t bytes) {
    if (wanted_heap(heap)) {
        ag_record_unmap(ag_host_place(heap, address), bytes);
    }
}

/* ---- collections and resets ---- */

enum { TEXT_MOST = 1024 };

/* Collections of this thread in progress; they are recorded when they end. */
enum { COLLECTIONS_MOST = 4 };
static __thread struct {
    struct {
        uint64_t start_raw, needed_bytes, heap_bytes;
        uint32_t heap, stack;
    } begun[COLLECTIONS_MOST];
    uint32_t n;
} collecting;

uint64_t ag_host_elapsed_raw(void) {
    return ag_raw_clock_elapsed(ag_recorder.header);
}

void allogram_tell_gc_begin_(allogram_heap heap, uint64_t needed_bytes, uint64_t heap_bytes) {
    if (!wanted_heap(heap) || !ag_recorder_is_active()) {
        return;
    }
    ag_record_cut_windows();
    if (collecting.n == COLLECTIONS_MOST) { /* the ends of these collections were not reported */
        collecting.n = 0;
    }
    collecting.begun[collecting.n].start_raw = ag_host_elapsed_raw();
    collecting.begun[collecting.n].needed_bytes = needed_bytes;
    collecting.begun[collecting.n].heap_bytes = heap_bytes;
    collecting.begun[collecting.n].heap = heap;
    collecting.begun[collecting.n].stack = ag_record_stack(CALLER_SP(), CALLER_RBP());
    collecting.n++;
}

void ag_host_report_collection(allogram_heap heap, const struct ag_host_collection *collection,
                               const char *kind) {
    const struct ag_host_heap *found = wanted_heap(heap);
    if (!found || !ag_recorder_is_active()) {
        return;
    }
    const struct ag_segment_header *header = ag_recorder.header;
    const uint64_t pause_raw = collection->end_raw - collection->start_raw;
    const struct ag_record record = {
        .kind = AG_RECORD_GC,
        .u.gc = {.known = AG_GC_KNOWN_END |
                          (collection->heap_before_bytes != 0 ? AG_GC_KNOWN_HEAP : 0) |
                          (collection->needed_bytes != 0 ? AG_GC_KNOWN_NEED : 0) |
                          (collection->has_promoted ? AG_GC_KNOWN_PROMOTED : 0),
                 .start_ns = ag_segment_ns(header, collection->start_raw),
                 .pause_ns = ag_segment_ns(header, pause_raw),
                 .heap_before_bytes = collection->heap_before_bytes,
                 .heap_after_bytes = collection->heap_after_bytes,
                 .needed_bytes = collection->needed_bytes,
                 .stack = collection->stack,
                 .thread_id = (uint32_t)ag_syscall1(SYS_gettid, 0),
                 .runtime = ag_bytes_of(found->runtime, sizeof(found->runtime)),
                 .kind = ag_bytes_of(kind, TEXT_MOST),
                 .promoted_bytes = collection->promoted_bytes}};
    ag_recorder_append(&record);
}

void ag_host_gc_end(allogram_heap heap, const char *kind, uint64_t heap_bytes,
                    const uint64_t *promoted_bytes) {
    const struct ag_host_heap *found = wanted_heap(heap);
    uint32_t at = collecting.n;
    while (at > 0 && collecting.begun[at - 1].heap != heap) {
        at--;
    }
    if (!found || at == 0 || !ag_recorder_is_active()) {
        return; /* the begin of this collection was not reported */
    }
    collecting.n = at - 1;
    ag_record_cut_windows();
    if (collecting.begun[at - 1].start_raw <=
        ag_host_elapsed_raw()) { /* otherwise the collection began in another recording */
        const struct ag_host_collection collection = {
            .start_raw = collecting.begun[at - 1].start_raw,
            .end_raw = ag_host_elapsed_raw(),
            .needed_bytes = collecting.begun[at - 1].needed_bytes,
            .heap_before_bytes = collecting.begun[at - 1].heap_bytes,
            .heap_after_bytes = heap_bytes,
            .promoted_bytes = promoted_bytes ? *promoted_bytes : 0,
            .has_promoted = promoted_bytes != NULL,
            .stack = collecting.begun[at - 1].stack};
        ag_host_report_collection(heap, &collection, kind);
    }
}

void allogram_tell_gc_end_(allogram_heap heap, const char *kind, uint64_t heap_bytes) {
    ag_host_gc_end(heap, kind, heap_bytes, /* promoted_bytes= */ NULL);
}

void allogram_session_mark(const char *name) {
    const struct ag_record record = {.kind = AG_RECORD_MARK,
                                     .u.mark.name = ag_bytes_of(name, TEXT_MOST)};
    get_ready();
    ag_recorder_append_moment(&record);
}

void allogram_tell_runtime(const struct allogram_runtime_options *options) {
    if (options && options->size >= sizeof(*options) && options->name && ag_recorder_is_active()) {
        const struct ag_runtime_definition runtime = {.name = options->name,
                                                      .version =
                                                          options->version ? options->version : "",
                                                      .note = options->note ? options->note : "",
                                                      .is_hooked = options->is_hooked != 0};
        get_ready();
        ag_record_runtime(&runtime);
    }
}

allogram_label allogram_set_label(allogram_label label) {
    const allogram_label before = label_now;
    label_now = ag_defined_names_get(&ag_host.labels, label) ? label : 0;
    ag_record_set_label_site(ag_defined_names_site(&ag_host.labels, label_now));
    return before;
}
