/* julia_objects.c: records the blocks of Julia's heaps, with their types and their deaths.
 * julia_calls.c and julia_imports.c call it for each block.
 *
 * 1. Types are written late. A block's type is the word before it. The code that requests a block
 * writes that word when it has the block, and before its thread allocates again. So each thread has
 * one pending object, which is recorded at the thread's next allocation, or when a collection has
 * stopped all threads. The data of a large array is allocated immediately before the array. So the
 * data is pending, too, until the array is allocated; the array's first word then points to the
 * data. The buffer of a small array is allocated immediately after the array, whose first word
 * points to the buffer. Memory that a growing array gets later is recorded as a buffer of an
 * unknown array.
 *
 * While a package's file is read, types are allocated, and used, before they have names. So blocks
 * that are made meanwhile are recorded when the reading ends. Julia does not collect until then.
 *
 * 2. Deaths of pool objects. Each thread keeps a list of the objects that it recorded. When marking
 * is over, objects without a mark are dead; the others stay in the list. Objects that are old and
 * marked stay marked until a full sweep clears their marks. So they move to a list of their own,
 * which is checked again only after a full sweep. Julia's collector does not scan the lists, so
 * the lists keep nothing alive.
 *
 * 3. Big objects and the data of arrays die by free, or move by a new block and a free
 * (julia_imports.c).
 *
 * A list is changed only by its thread, or while all threads are stopped. */
#include "julia_objects.h"

#include "base/pages.h"
#include "embed/host_events.h"
#include "embed/host_heaps.h"
#include "julia_blocks.h"
#include "julia_types.h"
#include "record/block_choice.h"
#include "record/event_fast.h"

/* ---- lists ---- */

static struct ag_julia_objects old;

static bool add_chunk(struct ag_julia_objects *list) {
    struct ag_julia_chunk *chunk = list->last ? list->last->next : NULL;
    if (!chunk) {
        chunk = ag_pages_map(sizeof(*chunk));
        if (!chunk) {
            ag_record_lost(AG_LOST_NO_MEMORY, 1);
            return false;
        }
        if (list->last) {
            list->last->next = chunk;
        } else {
            list->first = chunk;
        }
    }
    chunk->n = 0;
    list->last = chunk;
    return true;
}

AG_FAST void list_object(struct ag_julia_objects *list, uintptr_t object) {
    struct ag_julia_chunk *chunk = list->last;
    if (AG_LIKELY((chunk && chunk->n < AG_JULIA_CHUNK_OBJECTS) || add_chunk(list))) {
        chunk = list->last;
        chunk->objects[chunk->n++] = object;
    }
}

/* ---- reporting ---- */

/* The stack with a further node for the type. The result is cached, since most stacks make objects
 * of one type. */
static uint32_t typed_stack(struct ag_julia_thread *thread, uint32_t stack, uintptr_t tag,
                            bool is_data) {
    const uintptr_t key = tag | is_data;
    struct ag_julia_node *known =
        &thread->nodes[(stack * UINT32_C(0x9e3779b1) ^ (uint32_t)(tag >> 4)) >>
                       (32 - AG_JULIA_NODES_BITS)];
    if (AG_UNLIKELY(thread->nodes_recording != ag_recorder.recording)) {
        for (size_t i = 0; i < AG_ARRAY_SIZE(thread->nodes); i++) {
            thread->nodes[i] = (struct ag_julia_node){0};
        }
        thread->nodes_recording = ag_recorder.recording;
    }
    if (AG_LIKELY(known->tag == key && known->stack == stack && known->node != 0)) {
        return known->node;
    }
    const uint32_t site = ag_defined_names_site(&ag_host.types, ag_julia_type(tag, is_data));
    const uint32_t node = ag_stack_with_leaf(stack, site);
    *known = (struct ag_julia_node){
        .tag = key, .stack = stack, .node = node != AG_ROOT_NOT_KEPT ? node : 0};
    return node;
}

static void report_object(struct ag_julia_thread *thread, struct ag_julia_pending *pending,
                          uintptr_t tag, bool is_data) {
    if (AG_UNLIKELY(ag_block_choice.asks && !ag_host_takes_type(ag_julia_type(tag, is_data)))) {
        pending->address = 0;
        return;
    }
    const struct ag_reported_block block = {
        .stack = typed_stack(thread, pending->stack, tag, is_data),
        .via = ag_julia_heaps[pending->heap],
        .address = pending->address,
        .bytes = pending->bytes,
        .interval_bytes = pending->interval_bytes,
        .is_by_bytes = true,
    };
    ag_record_reported_alloc(&block);
    if (AG_LIKELY(pending->heap == AG_JULIA_POOL)) {
        list_object(&thread->objects, pending->address);
    } else {
        (void)ag_address_bits_set(&ag_julia_blocks,
                                  pending->heap == AG_JULIA_BIG ? AG_JULIA_BLOCK_BIG
                                                                : AG_JULIA_BLOCK_STD,
                                  pending->address);
    }
    pending->address = 0;
}

/* Whether the memory belongs to the array OBJECT: the first word of an array points to its
 * memory. */
static bool is_array_of(uintptr_t object, uintptr_t memory, size_t bytes) {
    return object != 0 && *(const volatile uintptr_t *)object - memory < bytes;
}

/* Records a block whose type can be read. */
static void julia_pending_finish(struct ag_julia_thread *thread, struct ag_julia_pending *pending) {
    uintptr_t tag = pending->object != 0 ? ag_julia_tag(pending->object) : 0;
    const uintptr_t memory = pending->object != 0 ? pending->object : pending->address;
    const bool has_array = (tag == 0 || tag == AG_JULIA_BUFFER) &&
                           is_array_of(pending->before, memory, pending->bytes);
    tag = has_array ? ag_julia_tag(pending->before) : tag;
    report_object(thread, pending, tag, has_array || pending->object == 0);
    pending->object = 0;
}

static void finish_or_defer(struct ag_julia_thread *thread, struct ag_julia_pending *pending) {
    if (AG_LIKELY(!thread->is_restoring)) {
        julia_pending_finish(thread, pending);
        return;
    }
    struct ag_julia_deferred *last = thread->deferred;
    if (!last || last->n == AG_ARRAY_SIZE(last->blocks)) {
        last = ag_pages_map(sizeof(*last));
        if (!last) {
            ag_record_lost(AG_LOST_NO_MEMORY, 1);
            pending->object = pending->address = 0;
            return;
        }
        last->before = thread->deferred;
        thread->deferred = last;
    }
    last->blocks[last->n++] = *pending;
    pending->object = pending->address = 0;
}

void ag_julia_restored(struct ag_julia_thread *thread) {
    ag_julia_settle(thread, /* with_data= */ true);
    thread->is_restoring = false;
    while (thread->deferred) {
        struct ag_julia_deferred *last = thread->deferred;
        thread->deferred = last->before;
        for (size_t i = 0; i < last->n; i++) {
            julia_pending_finish(thread, &last->blocks[i]);
        }
        ag_pages_unmap(last, sizeof(*last));
    }
}

void ag_julia_settle(struct ag_julia_thread *thread, bool with_data) {
    struct ag_julia_pending *data = &thread->data;
    const uintptr_t last = thread->last_object;
    if (AG_UNLIKELY(data->address != 0 && (with_data || last != 0))) {
        data->before = last;
        finish_or_defer(thread, data);
    }
    if (thread->object.object != 0) {
        finish_or_defer(thread, &thread->object);
    }
}

/* Whether the block is to be recorded; in a sampled recording, also with which interval. */
AG_FAST bool is_wanted(enum ag_julia_heap heap, size_t bytes, uint64_t *ret_interval_bytes) {
    *ret_interval_bytes = 0;
    if (!ag_julia_is_recorded() || !ag_host_heap(ag_julia_heaps[heap])) {
        return false;
    }
    return (!ag_recorder_is_sampling() || ag_sampler_selects(bytes, ret_interval_bytes)) &&
           ag_block_choice_selects(ag_julia_heaps[heap], bytes, AG_BLOCK_TYPE_TAKEN);
}

AG_FAST uint32_t stack_at(const uintptr_t *sp, uintptr_t rbp) {
    struct ag_thread *thread = ag_thread_current;
    if (AG_UNLIKELY(!ag_thread_is_open(thread))) {
        return ag_record_stack(sp, rbp);
    }
    thread->gate = (uintptr_t)sp;
    AG_SIGNAL_FENCE();
    const uint32_t stack = ag_walker_capture_fast(thread->walker, ag_recorder.space, sp, rbp);
    AG_SIGNAL_FENCE();
    thread->gate = AG_GATE_OPEN;
    return stack;
}

void ag_julia_made(struct ag_julia_thread *thread, enum ag_julia_heap heap,
                   const struct ag_julia_block_made *made) {
    uint64_t interval_bytes = 0;
    struct ag_julia_pending *pending = made->object != 0 ? &thread->object : &thread->data;
    const uintptr_t before = thread->last_object;
    if (AG_UNLIKELY(made->object == 0 && pending->address != 0)) {
        ag_julia_settle(thread, /* with_data= */ true);
    }
    thread->last_object = heap == AG_JULIA_POOL ? made->object : 0;
    if (!is_wanted(heap, made->bytes, &interval_bytes)) {
        return;
    }
    ag_host_get_ready();
    *pending = (struct ag_julia_pending){.object = made->object,
                                         .address = made->address,
                                         .before = before,
                                         .bytes = made->bytes,
                                         .interval_bytes = interval_bytes,
                                         .stack = stack_at(made->sp, made->rbp),
                                         .heap = heap};
}

/* ---- deaths ---- */

static void report_death(enum ag_word_kind kind, uintptr_t address, enum ag_julia_heap heap,
                         const uintptr_t *sp, uintptr_t rbp) {
    if (!ag_julia_is_recorded()) {
        return;
    }
    if (ag_recorder_is_sampling() || ag_block_choice.asks) { /* only blocks that were recorded */
        ag_record_reported_free(address, ag_julia_heaps[heap]);
    } else {
        ag_record_free_fast(kind, address, ag_julia_heaps[heap], sp, rbp);
    }
}

bool ag_julia_freed(enum ag_word_kind kind, uintptr_t address, const uintptr_t *sp, uintptr_t rbp) {
    struct ag_julia_thread *thread = ag_julia_thread();
    if (thread && (thread->object.address == address || thread->data.address == address)) {
        ag_julia_settle(thread, /* with_data= */ true);
    }
    if (ag_address_bits_clear(&ag_julia_blocks, AG_JULIA_BLOCK_BIG, address)) {
        report_death(kind, address, AG_JULIA_BIG, sp, rbp);
        return true;
    }
    if (ag_address_bits_clear(&ag_julia_blocks, AG_JULIA_BLOCK_STD, address)) {
        report_death(kind, address, AG_JULIA_STD, sp, rbp);
        return true;
    }
    return false;
}

/* Records the deaths of a list's dead objects. Live objects stay in the list; those that are old
 * and marked move to the list of old objects. */
static void sweep_list(struct ag_julia_objects *list, bool is_old, const uintptr_t *sp) {
    struct ag_julia_chunk *to = list->first;
    uint64_t n_kept = 0;
    for (struct ag_julia_chunk *from = list->first; from; from = from->next) {
        const uint64_t n = from->n;
        for (uint64_t i = 0; i < n; i++) {
            const uintptr_t object = from->objects[i];
            const uintptr_t bits = ag_julia_word(object) & AG_JULIA_OLD_MARKED;
            if (!(bits & AG_JULIA_MARKED)) {
                report_death(AG_WORD_FREE, object, AG_JULIA_POOL, sp, 0);
            } else if (bits == AG_JULIA_OLD_MARKED && !is_old) {
                list_object(&old, object);
            } else {
                if (n_kept == AG_JULIA_CHUNK_OBJECTS) {
                    to->n = n_kept;
                    to = to->next;
                    n_kept = 0;
                }
                to->objects[n_kept++] = object;
            }
        }
        if (from == list->last) {
            break;
        }
    }
    if (to) {
        to->n = n_kept;
        list->last = to;
    }
}

void ag_julia_objects_sweep(bool is_full) {
    const uintptr_t *sp = (const uintptr_t *)__builtin_frame_address(0) + 1;
    if (is_full) {
        sweep_list(&old, /* is_old= */ true, sp);
    }
    struct ag_julia_thread *thread = atomic_load_explicit(&ag_julia_threads, memory_order_acquire);
    for (; thread; thread = thread->next) {
        sweep_list(&thread->objects, /* is_old= */ false, sp);
    }
}

static void forget_list(struct ag_julia_objects *list) {
    list->last = list->first;
    if (list->first) {
        list->first->n = 0;
    }
}

static void forget_block(void *context, uintptr_t address) {
    const enum ag_julia_block *set = context;
    (void)ag_address_bits_clear(&ag_julia_blocks, *set, address);
}

void ag_julia_objects_forget(void) {
    static const enum ag_julia_block sets[] = {AG_JULIA_BLOCK_BIG, AG_JULIA_BLOCK_STD};
    forget_list(&old);
    struct ag_julia_thread *thread = atomic_load_explicit(&ag_julia_threads, memory_order_acquire);
    for (; thread; thread = thread->next) {
        forget_list(&thread->objects);
        thread->object.object = thread->data.address = 0;
        thread->last_object = thread->fresh = 0;
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(sets); i++) {
        enum ag_julia_block set = sets[i];
        ag_address_bits_walk(&ag_julia_blocks, set, forget_block, &set);
    }
}

/* ---- moves ---- */

void ag_julia_moved(struct ag_julia_thread *thread, enum ag_julia_heap heap, uintptr_t tag,
                    const struct ag_julia_block_made *to) {
    uint64_t interval_bytes = 0;
    if (!is_wanted(heap, to->bytes, &interval_bytes)) {
        return;
    }
    ag_host_get_ready();
    struct ag_julia_pending moved = {.address = to->address,
                                     .bytes = to->bytes,
                                     .interval_bytes = interval_bytes,
                                     .stack = stack_at(to->sp, to->rbp),
                                     .heap = heap};
    report_object(thread, &moved, tag, /* is_data= */ heap == AG_JULIA_STD);
}
