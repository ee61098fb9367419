/* collector_calls.c: the hooks of the Boehm collector's functions. Each hook calls the original
 * function and records the event. The hooks of GC_set_ and GC_get_on_collection_event are
 * different: the collector has one listener, which is the adapter's, so these hooks only store or
 * return the listener of the program.
 *
 * 1. The collector's functions call each other by their public names, so only the outermost call of
 * a thread is recorded. Finalizers run inside of calls but are the program's code, so a thread that
 * runs finalizers counts as outside of the collector (SHAPE_LEAVES).
 *
 * 2. A batch is a list of blocks that the program gets from GC_malloc_many or
 * GC_generic_malloc_many (which the macros of gc_inline.h call). Each block of a batch is recorded
 * when the program gets the batch, even if the program keeps the block in a free list. In an exact
 * recording, the hook of GC_generic_malloc_many makes a list of one block where possible
 * (single_block). So each block is recorded when the program allocates it, with the stack of that
 * moment. A sampling recorder leaves the lists whole, because the additional calls would cost more
 * time than the sampling.
 *
 * 3. Order: an alloc is recorded after the collector's function, a free before it. A block that
 * dies in a collection is recorded by the thread that collects (collector_cycle.c), before the
 * collector's lock is released: until then no other thread can get the block's address. When a
 * free and a collection both find a block dead, the thread that clears the block's bit in the set
 * of live blocks (held_blocks.h) records the death.
 *
 * 4. Coverage. At the end of an exact recording the recorded bytes are compared with the
 * collector's own counter (what GC_get_total_bytes returns; read by GC_get_prof_stats_unsafe), in
 * bytes of the collector's blocks. When the collector puts a list of blocks into a thread's free
 * list (a refill), that counter grows by all these blocks, and not when a block is handed out. So
 * the adapter keeps the blocks of a refill in a set of waiting blocks (held_blocks.h) until they
 * are handed out. At the end, a waiting block that still begins with a link to another waiting
 * block, or with the small number that ends a list, counts as never handed out, and its size is
 * subtracted from the counter. What the collector allocated for itself is subtracted as well: the
 * growth of the counter in some calls (finalizers, disappearing links; SHAPE_OWN), and the
 * collector's record of each thread, which it allocates when the thread starts. */
#include "collector_calls.h"

#include <errno.h>
#include <string.h>

#include "base/own_memory.h"
#include "embed/host_heaps.h"
#include "embed/tracker.h"
#include "held_blocks.h"
#include "hook/detour.h"
#include "hook/loaded_objects.h"
#include "record/event_fast.h"

enum shape {                     /* what the arguments mean */
             SHAPE_BYTES,        /* (bytes, ...) */
             SHAPE_ATOMIC,       /* (bytes), memory without pointers */
             SHAPE_COUNT_BYTES,  /* (count, bytes, ...) */
             SHAPE_ALIGNED,      /* (alignment, bytes) */
             SHAPE_POSIX,        /* (ret_block, alignment, bytes) */
             SHAPE_TEXT,         /* (text, ...): a copy */
             SHAPE_REALLOC,      /* (block, bytes, ...) */
             SHAPE_FREE,         /* (block) */
             SHAPE_LIST,         /* (bytes), a list of blocks */
             SHAPE_REFILL,       /* (bytes, kind, ret_list) */
             SHAPE_LEAVES,       /* runs the program's code: the thread leaves the collector */
             SHAPE_INSIDE,       /* not recorded; the thread is inside of the collector */
             SHAPE_OWN,          /* may allocate for the collector itself */
             SHAPE_REGISTER,     /* allocates the collector's record of the calling thread */
             SHAPE_SET_LISTENER, /* (listener) */
             SHAPE_GET_LISTENER, /* () */
};

struct row {
    const char *name;
    enum shape shape;
};
static const struct row rows[] = {
#define AG_BDWGC(name, shape) {#name, shape},
#define AG_BDWGC_ALWAYS(name, shape) {#name, shape},
#define AG_BDWGC_OFTEN(name, shape, does) {#name, shape},
#include "collector_functions.def"
#undef AG_BDWGC
#undef AG_BDWGC_OFTEN
#undef AG_BDWGC_ALWAYS
};
enum { N_ROWS = AG_ARRAY_SIZE(rows) };

typedef uintptr_t original_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
extern original_fn *ag_bdwgc_originals[N_ROWS] AG_HIDDEN;
original_fn *ag_bdwgc_originals[N_ROWS];
extern const unsigned char ag_bdwgc_entries[] AG_HIDDEN, ag_bdwgc_plain_entries[] AG_HIDDEN;
extern uint32_t ag_bdwgc_keeps_vectors AG_HIDDEN; /* 1: the entries save vector registers around
                                                   * ag_bdwgc_call */
uint32_t ag_bdwgc_keeps_vectors;
static struct ag_detour detours[N_ROWS];
static original_fn *make_block; /* GC_malloc_kind, or NULL if the collector does not have it */

struct ag_bdwgc_functions ag_bdwgc;
struct ag_address_bits ag_held;
uint32_t ag_bdwgc_heap;
const struct ag_object_reader *ag_object_reader;
_Atomic(ag_collection_listener *) ag_program_listener;
__thread struct ag_bdwgc_thread ag_bdwgc_thread;
_Static_assert(offsetof(struct ag_bdwgc_thread, attention) == 8,
               "the assembly code reads `attention` at this offset");

/* ---- sums ---- */

enum { SUMS_MOST = 1024, SUM_SHARED = SUMS_MOST - 1 };
struct sum { /* one for each thread; the threads after the first SUM_SHARED share the last one */
    AG_CACHE_ALIGNED _Atomic uint64_t reported_bytes;
};
static struct sum *sums; /* mapped; zeroed in a forked child */
static _Atomic uint32_t n_sums;
/* index in sums + 1; 0: none yet */
static __thread uint32_t own_sum __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t own_bytes, left_bytes, listed_blocks;

AG_COLD static uint32_t take_sum(void) {
    const uint32_t taken = atomic_fetch_add_explicit(&n_sums, 1, memory_order_relaxed);
    own_sum = (taken < SUM_SHARED ? taken : (uint32_t)SUM_SHARED) + 1;
    return own_sum;
}

static void add_reported(uint64_t bytes) {
    const uint32_t at = (own_sum != 0 ? own_sum : take_sum()) - 1;
    _Atomic uint64_t *sum = &sums[at].reported_bytes;
    if (at == SUM_SHARED) {
        atomic_fetch_add_explicit(sum, bytes, memory_order_relaxed);
    } else {
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + bytes,
                              memory_order_relaxed);
    }
}

uint64_t ag_bdwgc_reported_bytes(void) {
    uint64_t total = 0;
    for (size_t i = 0; i < SUMS_MOST; i++) {
        total += atomic_load_explicit(&sums[i].reported_bytes, memory_order_relaxed);
    }
    return total;
}

uint64_t ag_bdwgc_own_bytes(void) {
    return atomic_load_explicit(&own_bytes, memory_order_relaxed);
}

void ag_bdwgc_not_handed_out(uint64_t bytes) {
    atomic_fetch_add_explicit(&left_bytes, bytes, memory_order_relaxed);
}

uint64_t ag_bdwgc_listed_blocks(void) {
    return atomic_load_explicit(&listed_blocks, memory_order_relaxed);
}

uint64_t ag_bdwgc_left_bytes(void) {
    return atomic_load_explicit(&left_bytes, memory_order_relaxed);
}

static int start_sums(void) {
    sums = ag_own_memory_take_wiped(SUMS_MOST * sizeof(*sums));
    return sums ? 0 : -ENOMEM;
}

/* ---- reporting ---- */

/* The address of the return address of the call. */
static const uintptr_t *sp_of(const struct ag_kept_call *call) {
    return &call->return_address;
}

/* If a language's adapter reads objects (ag_object_reader): after a sampled block, the next
 * LOOKS_MOST calls of the thread go through ag_bdwgc_call, and not through the short path of
 * collector_entry.S. At each of these calls the adapter can read the object's type number. The
 * object is initialized long before the last of them. */
enum { LOOKS_MOST = 64 };

/* The address of the collector's block that contains ADDRESS. */
static uintptr_t block_of(uintptr_t address) {
    void *base = ag_bdwgc.base((void *)address);
    return base ? (uintptr_t)base : address;
}

/* Whether the collector's record of the calling thread was counted. */
static __thread bool is_thread_counted __attribute__((tls_model("initial-exec")));

/* Counts the collector's record of the calling thread. The record of the program's first thread is
 * not a block of the collector's heap. */
AG_COLD static void count_thread(void) {
    void *stack_base[4]; /* struct GC_stack_base of gc.h has one or two pointers */
    is_thread_counted = true;
    const bool has_record =
        ag_bdwgc.my_thread && ag_bdwgc.is_registered && ag_bdwgc.is_registered();
    void *record = has_record ? ag_bdwgc.my_thread(stack_base) : NULL;
    if (record && ag_bdwgc.base(record) == record) {
        atomic_fetch_add_explicit(&own_bytes, ag_bdwgc.size(record), memory_order_relaxed);
    }
}

static void report_alloc(const struct ag_kept_call *call, uintptr_t address, size_t bytes) {
    const bool is_reported = ag_host_heap(ag_bdwgc_heap) != NULL; /* false: `run --filter` excludes
                                                                   * the heap */
    if (address == 0) {
        return;
    }
    if (!ag_recorder_is_sampling()) {
        if (AG_UNLIKELY(!is_thread_counted)) {
            count_thread();
        }
        const uintptr_t block = block_of(address);
        (void)ag_address_bits_clear(&ag_held, AG_HELD_WAITING, block);
        add_reported(ag_bdwgc.size((const void *)block));
        if (is_reported) {
            (void)ag_address_bits_set(&ag_held, AG_HELD_ALIVE, address);
        }
    }
    if (!is_reported) {
        return;
    }
    ag_record_alloc_fast(sp_of(call), call->rbp, address, bytes, ag_bdwgc_heap);
    const bool is_tracked = allogram_mode_ & (ALLOGRAM_SAMPLES_ | ALLOGRAM_EACH_);
    if (!ag_recorder_is_sampling()) {
        ag_object_allocated(address);
    } else if (is_tracked || ag_sampled_may_hold_fast(ag_sampled_key(address, ag_bdwgc_heap))) {
        (void)ag_address_bits_set(&ag_held, AG_HELD_ALIVE, address);
        ag_object_allocated(address);
        ag_bdwgc_thread.attention = ag_object_reader ? LOOKS_MOST : 0;
    }
    if (AG_UNLIKELY(is_tracked)) {
        ag_tracker_alloc(ag_bdwgc_heap, address, bytes, 0);
    }
}

/* The code of the collector's library; empty if the collector is linked into the program. */
static struct ag_loaded_segment own_code;

/* Whether the collector itself makes this call of a free function. When a thread ends, the
 * collector frees memory that it allocated for itself. That memory was not recorded. */
static bool is_by_collector(const struct ag_kept_call *call) {
    return call->return_address - own_code.low < own_code.high - own_code.low;
}

bool ag_bdwgc_block_is_alive(uintptr_t address) {
    return ag_address_bits_has(&ag_held, AG_HELD_ALIVE, address);
}

/* Returns true if the free was recorded, or a filter excludes the heap. */
static bool report_free(const struct ag_kept_call *call, enum ag_word_kind kind,
                        uintptr_t address) {
    if (address == 0 || is_by_collector(call)) {
        return false;
    }
    if (ag_recorder_is_sampling() && !ag_address_bits_has(&ag_held, AG_HELD_ALIVE, address)) {
        return false;
    }
    ag_object_freeing(address);
    if (!ag_address_bits_clear(&ag_held, AG_HELD_ALIVE, address) && ag_recorder_is_sampling()) {
        return false;
    }
    if (!ag_host_heap(ag_bdwgc_heap)) {
        return true;
    }
    ag_record_free_fast(kind, address, ag_bdwgc_heap, sp_of(call), call->rbp);
    if (AG_UNLIKELY(allogram_mode_ & ALLOGRAM_FREES_)) {
        ag_tracker_free(ag_bdwgc_heap, address);
    }
    return true;
}

static uintptr_t next_in_list(uintptr_t block) {
    return *(const uintptr_t *)block;
}

static void report_list(const struct ag_kept_call *call, uintptr_t first, size_t bytes) {
    uint64_t blocks = 0;
    for (uintptr_t block = first; block != 0; block = next_in_list(block), blocks++) {
        report_alloc(call, block, bytes);
    }
    atomic_fetch_add_explicit(&listed_blocks, blocks, memory_order_relaxed);
}

/* Called when a thread's own free list was refilled. The collector counts all blocks of a refill. A
 * block that is in the set of waiting blocks already comes from the list of a thread that ended,
 * and was counted before. */
static void note_refill(uintptr_t first) {
    if (ag_recorder_is_sampling() || first == 0) {
        return;
    }
    const size_t bytes = ag_bdwgc.size((const void *)first);
    for (uintptr_t block = first; block != 0; block = next_in_list(block)) {
        if (ag_address_bits_has(&ag_held, AG_HELD_WAITING, block)) {
            ag_bdwgc_not_handed_out(bytes);
        } else {
            (void)ag_address_bits_set(&ag_held, AG_HELD_WAITING, block);
        }
    }
}

/* ---- calls ---- */

static uintptr_t call_original(struct ag_kept_call *call) {
    call->original = (uintptr_t)ag_bdwgc_originals[call->datum];
    return ag_kept_original(call);
}

static uintptr_t call_inside(struct ag_kept_call *call) {
    struct ag_bdwgc_thread *thread = &ag_bdwgc_thread;
    thread->outermost = call;
    thread->inside = (uintptr_t)sp_of(call);
    const uintptr_t result = call_original(call);
    thread->inside = 0;
    return result;
}

static uintptr_t call_leaving(struct ag_kept_call *call) {
    struct ag_bdwgc_thread *thread = &ag_bdwgc_thread;
    const uintptr_t inside = thread->inside;
    const struct ag_kept_call *outermost = thread->outermost;
    thread->inside = 0;
    const uintptr_t result = call_original(call);
    thread->inside = inside;
    thread->outermost = outermost;
    return result;
}

static uintptr_t call_own(struct ag_kept_call *call) {
    const uint64_t before = ag_bdwgc.total_bytes();
    const uintptr_t result = call_inside(call);
    const uint64_t after = ag_bdwgc.total_bytes();
    atomic_fetch_add_explicit(&own_bytes, after - before, memory_order_relaxed);
    return result;
}

/* Stores a list of one block into *RET_LIST, in place of the longer list that the program requests.
 * So the program makes a call for each block, and each block is recorded with its own stack.
 * Returns false if the original function has to make the list. */
static bool single_block(struct ag_kept_call *call, uintptr_t *ret_list) {
    enum { KINDS = 2 }; /* GC_I_PTRFREE (memory without pointers) and GC_I_NORMAL */
    const size_t bytes = call->arguments[0], kind = call->arguments[1];
    if (kind >= KINDS || !make_block || !ag_bdwgc.adds_byte) {
        return false;
    }
    const size_t added_bytes = ag_bdwgc.adds_byte() != 0 ? 1 : 0;
    struct ag_bdwgc_thread *thread = &ag_bdwgc_thread;
    thread->outermost = call;
    thread->inside = (uintptr_t)sp_of(call);
    uintptr_t *block = (uintptr_t *)make_block(bytes - added_bytes, kind, 0, 0, 0, 0);
    thread->inside = 0;
    if (!block) {
        return false;
    }
    *block = 0; /* the end of the list */
    *ret_list = (uintptr_t)block;
    report_alloc(call, *ret_list, bytes);
    return true;
}

static uintptr_t call_refill(struct ag_kept_call *call) {
    uintptr_t *list = (uintptr_t *)call->arguments[2];
    if (ag_bdwgc_thread.inside != 0) {
        const uintptr_t result = call_original(call);
        note_refill(*list);
        return result;
    }
    if (!ag_recorder_is_sampling() && single_block(call, list)) {
        return call->rax; /* the function returns nothing, so rax stays */
    }
    const uintptr_t result = call_inside(call);
    report_list(call, *list, call->arguments[0]);
    return result;
}

static uintptr_t call_realloc(struct ag_kept_call *call) {
    const uintptr_t block = call->arguments[0];
    const size_t bytes = call->arguments[1];
    const bool is_reported = report_free(call, AG_WORD_REALLOC_FREE, block);
    const uintptr_t moved = call_inside(call);
    if (moved == 0 && is_reported && bytes != 0) {
        (void)ag_address_bits_set(&ag_held, AG_HELD_ALIVE, block);
        ag_record_free_fast(AG_WORD_UNDO_FREE, block, ag_bdwgc_heap, sp_of(call), call->rbp);
    } else if (moved == block && moved != 0 && !ag_recorder_is_sampling()) {
        const uint64_t again = ag_bdwgc.size((const void *)block_of(moved));
        add_reported(-again); /* the collector does not count a block again if the block stays in
                               * its place */
    }
    report_alloc(call, moved, bytes);
    return moved;
}

static uintptr_t set_listener(struct ag_kept_call *call) {
    atomic_store_explicit(&ag_program_listener, (ag_collection_listener *)call->arguments[0],
                          memory_order_release);
    return call->rax; /* the function returns nothing, so rax stays */
}

static uint64_t needed_bytes(const struct ag_kept_call *call) {
    const uintptr_t *a = call->arguments;
    switch (rows[call->datum].shape) {
    case SHAPE_BYTES:
    case SHAPE_ATOMIC:
    case SHAPE_LIST:
    case SHAPE_REFILL:
        return a[0];
    case SHAPE_COUNT_BYTES:
        return a[0] * a[1];
    case SHAPE_ALIGNED:
    case SHAPE_REALLOC:
        return a[1];
    case SHAPE_POSIX:
        return a[2];
    case SHAPE_TEXT:
    case SHAPE_FREE:
    case SHAPE_LEAVES:
    case SHAPE_INSIDE:
    case SHAPE_OWN:
    case SHAPE_REGISTER:
    case SHAPE_SET_LISTENER:
    case SHAPE_GET_LISTENER:
        return 0;
    }
    __builtin_unreachable();
}

static uintptr_t make_call(struct ag_kept_call *call) {
    const uintptr_t *a = call->arguments;
    uintptr_t result = 0;
    ag_bdwgc_thread.attention -= ag_bdwgc_thread.attention > 0;
    ag_object_returned();
    switch (rows[call->datum].shape) {
    case SHAPE_ATOMIC:
        result = call_inside(call);
        ag_object_uncleared(result, a[0]);
        report_alloc(call, result, a[0]);
        return result;
    case SHAPE_BYTES:
    case SHAPE_COUNT_BYTES:
    case SHAPE_ALIGNED:
        result = call_inside(call);
        report_alloc(call, result, needed_bytes(call));
        return result;
    case SHAPE_POSIX:
        result = call_inside(call);
        if ((int)result == 0) {
            report_alloc(call, *(const uintptr_t *)a[0], needed_bytes(call));
        }
        return result;
    case SHAPE_TEXT:
        result = call_inside(call);
        report_alloc(call, result, result != 0 ? strlen((const char *)result) + 1 : 0);
        return result;
    case SHAPE_REALLOC:
        return call_realloc(call);
    case SHAPE_FREE:
        (void)report_free(call, AG_WORD_FREE, a[0]);
        return call_inside(call);
    case SHAPE_LIST:
        result = call_inside(call);
        report_list(call, result, a[0]);
        return result;
    case SHAPE_REFILL:
        return call_refill(call);
    case SHAPE_LEAVES:
        return call_leaving(call);
    case SHAPE_INSIDE:
        return call_inside(call);
    case SHAPE_REGISTER:
        is_thread_counted = true;
        return call_own(call);
    case SHAPE_OWN:
        return call_own(call);
    case SHAPE_SET_LISTENER:
        return set_listener(call);
    case SHAPE_GET_LISTENER:
        return (uintptr_t)atomic_load_explicit(&ag_program_listener, memory_order_acquire);
    }
    __builtin_unreachable();
}

/* Called from collector_entry.S. */
void ag_bdwgc_call(struct ag_kept_call *call);
void ag_bdwgc_call(struct ag_kept_call *call) {
    if (AG_UNLIKELY(allogram_mode_ & ALLOGRAM_FREES_) && ag_bdwgc_thread.inside == 0) {
        ag_object_returned();
        ag_tracker_deliver(); /* the arguments are on this stack, so the objects they point to stay
                               * live */
    }
    /* keeps rdx unchanged if the original is not called */
    call->result_2 = call->arguments[2];
    call->result = make_call(call);
}

bool ag_bdwgc_find_cause(struct ag_bdwgc_cause *ret_cause) {
    const struct ag_bdwgc_thread *thread = &ag_bdwgc_thread;
    if (thread->inside == 0) {
        return false;
    }
    if ((thread->inside & 1) == 0) {
        *ret_cause = (struct ag_bdwgc_cause){.sp = sp_of(thread->outermost),
                                             .rbp = thread->outermost->rbp,
                                             .needed_bytes = needed_bytes(thread->outermost)};
        return true;
    }
    const uintptr_t *sp = (const uintptr_t *)(thread->inside - 1);
    *ret_cause = (struct ag_bdwgc_cause){.sp = sp, .rbp = sp[-2], .needed_bytes = sp[-1]};
    return true;
}

/* ---- hooking ---- */

size_t ag_bdwgc_n_calls(void) {
    return N_ROWS;
}

const char *ag_bdwgc_call_name(size_t row) {
    return rows[row].name;
}

static bool is_hooked_already(const struct ag_bdwgc_place *places, size_t row) {
    for (size_t i = 0; i < row; i++) {
        if (places[i].address == places[row].address) {
            return true; /* the function is hooked already, under another name */
        }
    }
    return false;
}

int ag_bdwgc_hook(const struct ag_bdwgc_place *places, bool in_program, const char **ret_reason,
                  const char **ret_name) {
    const unsigned char *entries = in_program ? ag_bdwgc_entries : ag_bdwgc_plain_entries;
    ag_bdwgc_keeps_vectors = in_program;
    struct ag_loaded_segment code;
    if (ag_objects_segment((uintptr_t)ag_bdwgc.statistics, &code) && !code.in_program) {
        own_code = code;
    }
    int r = start_sums();
    r = r < 0 ? r : ag_address_bits_start(&ag_held, AG_HELD_KINDS, /* forgets_on_fork= */ true);
    if (r < 0) {
        *ret_reason = "out of memory";
        *ret_name = "";
        return r;
    }
    for (size_t i = 0; i < N_ROWS && r == 0; i++) {
        if (places[i].address == 0 || is_hooked_already(places, i)) {
            continue;
        }
        r = ag_detour_install(&detours[i], (void *)places[i].address, places[i].bytes,
                              (void *)(uintptr_t)(entries + i * AG_BDWGC_ENTRY_BYTES),
                              (void **)&ag_bdwgc_originals[i]);
        if (strcmp(rows[i].name, "GC_malloc_kind") == 0) {
            make_block = ag_bdwgc_originals[i];
        }
        *ret_reason = detours[i].reason ? detours[i].reason : "its code cannot be changed";
        *ret_name = rows[i].name;
    }
    for (size_t i = 0; i < N_ROWS && r < 0; i++) {
        (void)ag_detour_remove(&detours[i]); /* hooking only some of the functions would give wrong
                                              * numbers */
    }
    return r;
}

void ag_bdwgc_listen(ag_collection_listener *listener) {
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].shape == SHAPE_SET_LISTENER && ag_bdwgc_originals[i]) {
            (void)ag_bdwgc_originals[i]((uintptr_t)listener, 0, 0, 0, 0, 0);
        }
    }
}

void ag_bdwgc_listen_also(ag_collection_listener *listener) {
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].shape == SHAPE_GET_LISTENER && ag_bdwgc_originals[i]) {
            atomic_store_explicit(&ag_program_listener,
                                  (ag_collection_listener *)ag_bdwgc_originals[i](0, 0, 0, 0, 0, 0),
                                  memory_order_release);
        }
    }
    ag_bdwgc_listen(listener);
}
