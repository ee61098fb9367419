/* chunk_supply.c: gives threads the chunks to which they write events. A chunk is 64 KiB of the
 * segment, the memory that the process shares with the writer process. The writer process reads
 * full chunks and returns them. Free chunks are in a lock-free list. While the list is empty, a
 * thread waits for a limited time (back pressure).
 *
 * The head of the list is a word in the header: tag:32 | index+1:32. The tag changes at each pop
 * and push, so a chunk that was popped and pushed again between a thread's load and its
 * compare-and-swap (ABA) makes the swap fail. The list is LIFO because the chunk returned last is
 * most likely in the cache.
 *
 * How long a thread waits when the list is empty:
 *
 *  - chunks in use < header.soft_chunks + one per thread state, or the writer has ended
 *    (header.writer_pid is 0): the thread does not wait, but takes a fresh chunk, which was never
 *    used;
 *  - the writer is alive (header.tick, which the writer increments every millisecond, changes): the
 *    thread tests the list every 50 us, for up to WAIT_ALIVE_NS;
 *  - the tick has not changed for WAIT_DEAD_NS, so no writer empties chunks: the thread takes fresh
 *    chunks up to the file's end;
 *  - there are no fresh chunks (the end of the file is reached, or there is no memory): the thread
 *    waits once for WAIT_BARREN_NS for a chunk to be returned, except if the writer has ended. If
 *    no chunk is returned, events are lost, which the caller counts, and the thread requests memory
 *    again once per tick.
 *
 * Chunks are mapped in windows (mappings of 64 MiB) when they are needed. So a host (the profiled
 * program) with RLIMIT_AS, or one that checks its own size, mostly sees only one window of address
 * space used by allogram, not the whole file. The file is already closed when a further window is
 * needed. So this window is made from an existing one by mremap with an old size of 0, which maps
 * the same shared file again.
 *
 * One event never blocks a thread of the host for longer than WAIT_ALIVE_NS + WAIT_BARREN_NS. A
 * thread waits only while the writer is slower than the host. */
#include "chunk_supply.h"

#include <errno.h>
#include <string.h>

#include "base/pages.h"
#include "base/populate.h"
#include "base/raw_syscall.h"
#include "base/short_wait.h"
#include "raw_clock.h"
#include "thread_state.h"

enum {
    /* the array of controls begins at a page boundary */
    CONTROLS_A_PAGE = AG_PAGE_BYTES / sizeof(struct ag_chunk_control),
    POLL_NS = 50 * 1000,
    ASK_AGAIN_AFTER = 4096, /* lost events between two requests for memory */
    /* if the tick did not change for 300 ms, the writer is dead or stopped */
    WAIT_DEAD_NS = 300 * 1000 * 1000,
    WAIT_BARREN_NS = 100 * 1000 * 1000, /* the writer empties a chunk in less time */
    /* after this time a fresh chunk is taken */
    WAIT_ALIVE_NS = 2 * 1000 * 1000 * 1000 - 1,
};

/* ---- windows ---- */

/* mremap(2): an old size of 0 on a shared mapping makes a second mapping of the file, which begins
 * at the same page. The second mapping inherits the advice (madvise) of the first, so it is
 * excluded from core dumps, too. */
void *ag_map_shared_again(void *mapped, uint64_t bytes) {
    const long address =
        ag_syscall6(SYS_mremap, (long)mapped, 0, (long)bytes, MREMAP_MAYMOVE, 0, 0);
    if (ag_syscall_failed(address)) {
        return NULL;
    }
    return (void *)address;
}

/* The mapping of the new window begins one page before the window, at the last page of the previous
 * window, because mremap needs a mapped address. */
static unsigned char *map_window_after(unsigned char *before) {
    unsigned char *window = ag_map_shared_again(before + AG_WINDOW_BYTES - AG_PAGE_BYTES,
                                                AG_WINDOW_BYTES + AG_PAGE_BYTES);
    return window ? window + AG_PAGE_BYTES : NULL;
}

/* The bytes that are mapped before a window: a page; nothing before the first window. */
static uint64_t early_bytes(uint32_t index) {
    return index > 0 ? AG_PAGE_BYTES : 0;
}

static uint64_t window_bytes(uint32_t index) {
    const uint64_t all_bytes = (uint64_t)ag_recorder.n_chunks * AG_CHUNK_BYTES;
    return index > 0 || all_bytes > AG_WINDOW_BYTES ? AG_WINDOW_BYTES + early_bytes(index)
                                                    : all_bytes;
}

static void unmap_window(unsigned char *window, uint32_t index) {
    ag_pages_unmap(window - early_bytes(index), window_bytes(index));
}

bool ag_chunk_supply_map_again(void) {
    for (uint32_t i = 0; i < AG_MAX_WINDOWS; i++) {
        unsigned char *window = atomic_load_explicit(&ag_recorder.windows[i], memory_order_relaxed);
        if (window) {
            window = ag_map_shared_again(window - early_bytes(i), window_bytes(i));
            if (!window) {
                return false;
            }
            atomic_store_explicit(&ag_recorder.windows[i], window + early_bytes(i),
                                  memory_order_release);
        }
    }
    return true;
}

void ag_chunk_supply_unmap(void) {
    for (uint32_t i = 0; i < AG_MAX_WINDOWS; i++) {
        unsigned char *window =
            atomic_exchange_explicit(&ag_recorder.windows[i], NULL, memory_order_relaxed);
        if (window) {
            unmap_window(window, i);
        }
    }
}

static unsigned char *window_at(uint32_t index) {
    unsigned char *window = atomic_load_explicit(&ag_recorder.windows[index], memory_order_acquire);
    if (window || index == 0) {
        return window;
    }
    unsigned char *before = NULL;
    /* also maps missing earlier windows, because each window is made from the previous window */
    for (uint32_t i = 0; i <= index; i++) {
        window = atomic_load_explicit(&ag_recorder.windows[i], memory_order_acquire);
        if (!window) {
            window = map_window_after(before);
            unsigned char *expected = NULL;
            if (!window) {
                return NULL;
            }
            if (!atomic_compare_exchange_strong_explicit(&ag_recorder.windows[i], &expected, window,
                                                         memory_order_acq_rel,
                                                         memory_order_acquire)) {
                unmap_window(window, i); /* another thread was faster */
                window = expected;
            }
        }
        before = window;
    }
    return window;
}

static unsigned char *chunk_bytes_at(uint32_t index) {
    unsigned char *window = window_at(index / AG_WINDOW_CHUNKS);
    return window ? window + (size_t)(index % AG_WINDOW_CHUNKS) * AG_CHUNK_BYTES : NULL;
}

/* ---- the free list ---- */

/* Time since the session (the recording of all processes) began. If the session's clock is the TSC,
 * reading it takes no system call. */
static uint64_t elapsed_ns(void) {
    const struct ag_segment_header *header = ag_recorder.header;
    const uint64_t slowest = UINT64_C(16) << 32, fastest = (UINT64_C(1) << 32) / 16;
    uint64_t factor = atomic_load_explicit(&header->clock_ns_per_2_32, memory_order_relaxed);
    /* the header is untrusted */
    factor = factor < fastest ? fastest : factor > slowest ? slowest : factor;
    const uint64_t raw = ag_raw_clock_elapsed(header);
    return ag_clock_ns(factor, raw);
}

/* Whether this process may take a chunk for the thread. A signal handler may interrupt take_fresh
 * or pop_free and fork; then the child takes no chunk, because the thread's state is that of the
 * parent (see take_new_chunk in stream.c). */
static bool may_take(const struct ag_thread *thread) {
    return thread ? ag_thread_is_own(thread) : !ag_process_is_forked();
}

static int64_t pop_free(const struct ag_thread *thread, struct ag_segment_header *header) {
    uint64_t head = atomic_load_explicit(&header->free_head, memory_order_acquire);
    for (;;) {
        const uint32_t index_plus_one = (uint32_t)head;
        if (index_plus_one == 0 || index_plus_one > ag_recorder.n_chunks || !may_take(thread)) {
            return -1;
        }
        struct ag_chunk_control *control = &ag_recorder.controls[index_plus_one - 1];
        const uint32_t next = atomic_load_explicit(&control->next_free, memory_order_relaxed);
        const uint64_t replacement = ((head >> 32) + 1) << 32 | next;
        /* acquire: pairs with the writer's release when it returns the chunk, so the writer has
         * read the chunk, and it may be overwritten */
        if (atomic_compare_exchange_weak_explicit(&header->free_head, &head, replacement,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            return index_plus_one - 1;
        }
    }
}

static bool is_ready(uint32_t chunk) {
    /* acquire: pairs with the writer's release in ag_session_prepare_chunks */
    return chunk < atomic_load_explicit(&ag_recorder.header->n_chunks_ready, memory_order_acquire);
}

/* Populates the page that contains the control of the chunk. Chunks are taken in order, so only the
 * first control of a page can be in a page that is not populated. */
static bool has_control(uint32_t chunk) {
    return chunk % CONTROLS_A_PAGE != 0 || is_ready(chunk) ||
           ag_populate(&ag_recorder.controls[chunk],
                       CONTROLS_A_PAGE * sizeof(*ag_recorder.controls));
}

/* Populates the memory of the chunk. Called before the chunk is counted as used: so if this
 * function fails, no chunk is lost, and the same chunk is tried again later. It is harmless if
 * another thread takes the chunk meanwhile. */
static bool has_words(uint32_t chunk) {
    unsigned char *bytes = chunk_bytes_at(chunk);
    return bytes &&
           (is_ready(chunk) ||
            atomic_load_explicit(&ag_recorder.controls[chunk].populated, memory_order_relaxed) ||
            ag_populate(bytes, AG_CHUNK_BYTES));
}

/* barren_tick is the tick in which the kernel last refused memory; in the same tick, threads do not
 * request memory again. Without a writer the tick does not change. So n_barren counts the lost
 * events, and after every ASK_AGAIN_AFTER lost events a thread requests memory again. */
static _Atomic uint64_t barren_tick; /* the tick plus 1; 0: the kernel has refused no memory yet */
static _Atomic uint32_t n_barren;

static bool is_barren(const struct ag_segment_header *header) {
    return atomic_load_explicit(&barren_tick, memory_order_relaxed) ==
               atomic_load_explicit(&header->tick, memory_order_relaxed) + 1 &&
           atomic_fetch_add_explicit(&n_barren, 1, memory_order_relaxed) % ASK_AGAIN_AFTER != 0;
}

static int64_t take_fresh(const struct ag_thread *thread, struct ag_segment_header *header) {
    if (is_barren(header)) {
        return -1;
    }
    uint32_t touched = atomic_load_explicit(&header->n_chunks_touched, memory_order_relaxed);
    do {
        if (touched >= ag_recorder.n_chunks || !has_control(touched) || !has_words(touched)) {
            const uint64_t tick = atomic_load_explicit(&header->tick, memory_order_relaxed);
            atomic_store_explicit(&n_barren, 1, memory_order_relaxed);
            atomic_store_explicit(&barren_tick, tick + 1, memory_order_relaxed);
            return -1;
        }
        if (!may_take(thread)) {
            return -1;
        }
    } while (!atomic_compare_exchange_weak_explicit(&header->n_chunks_touched, &touched,
                                                    touched + 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    atomic_store_explicit(&ag_recorder.controls[touched].populated, 1, memory_order_relaxed);
    return touched;
}

static bool may_grow(const struct ag_segment_header *header) {
    const uint32_t in_use = atomic_load_explicit(&header->n_chunks_in_use, memory_order_relaxed);
    const uint32_t states = atomic_load_explicit(&ag_recorder.n_states, memory_order_relaxed);
    return in_use < header->soft_chunks + states;
}

/* Counts a wait of the thread for a chunk, which began at BEGIN_NS (elapsed_ns) and has ended. */
static void count_wait(const struct ag_thread *thread, uint64_t begin_ns) {
    const uint64_t now = elapsed_ns();
    if (may_take(thread)) { /* the slot of a forked child is still that of its parent */
        atomic_fetch_add_explicit(&ag_recorder.slot->waited_ns, now > begin_ns ? now - begin_ns : 0,
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&ag_recorder.slot->n_waits, 1, memory_order_relaxed);
    }
}

/* Waits until the writer returns a chunk. Returns the index of the chunk; -1: the caller should
 * take a fresh chunk. */
static int64_t wait_for_chunk(const struct ag_thread *thread, struct ag_segment_header *header) {
    const uint64_t start = elapsed_ns();
    uint64_t last_tick = atomic_load_explicit(&header->tick, memory_order_relaxed),
             last_move = start;
    for (;;) {
        ag_short_wait(POLL_NS);
        const int64_t index = pop_free(thread, header);
        if (index >= 0) {
            return index;
        }
        const uint64_t now = elapsed_ns(),
                       tick = atomic_load_explicit(&header->tick, memory_order_relaxed);
        if (tick != last_tick) {
            last_tick = tick;
            last_move = now;
        }
        if (!ag_thread_is_own(thread) || may_grow(header) || now - last_move > WAIT_DEAD_NS ||
            now - start > WAIT_ALIVE_NS ||
            atomic_load_explicit(&header->stop, memory_order_relaxed)) {
            return -1;
        }
    }
}

static bool writer_is_gone(const struct ag_segment_header *header) {
    return atomic_load_explicit(&header->writer_pid, memory_order_relaxed) == 0;
}

/* There is no memory for more chunks, but the writer may return a used chunk: waits for one. If the
 * writer returns none in time, *starves is set, and later calls do not wait (events are lost) until
 * a chunk is returned. */
static int64_t wait_where_barren(const struct ag_thread *thread, struct ag_segment_header *header,
                                 _Atomic bool *starves) {
    const uint64_t begin = elapsed_ns(), end = begin + WAIT_BARREN_NS;
    int64_t index = -1;
    if (writer_is_gone(header) || atomic_load_explicit(starves, memory_order_relaxed)) {
        return -1;
    }
    while (index < 0 && ag_thread_is_own(thread) && elapsed_ns() < end) {
        ag_short_wait(POLL_NS);
        index = pop_free(thread, header);
    }
    count_wait(thread, begin);
    atomic_store_explicit(starves, index < 0, memory_order_relaxed);
    return index;
}

int ag_chunk_supply_take(const struct ag_thread *thread, struct ag_chunk_control **ret_control,
                         uint64_t **ret_words) {
    struct ag_segment_header *header = ag_recorder.header;
    /* the tick in which a thread last waited in vain; threads wait again only after the tick has
     * changed */
    static _Atomic uint64_t tick_at_neglect;
    static _Atomic bool starves;
    int64_t index = pop_free(thread, header);
    if (index >= 0 && atomic_load_explicit(&starves, memory_order_relaxed)) {
        atomic_store_explicit(&starves, false, memory_order_relaxed);
    }
    if (index < 0 && !may_grow(header) && !writer_is_gone(header) &&
        atomic_load_explicit(&tick_at_neglect, memory_order_relaxed) !=
            atomic_load_explicit(&header->tick, memory_order_relaxed)) {
        const uint64_t begin_ns = elapsed_ns();
        index = wait_for_chunk(thread, header);
        count_wait(thread, begin_ns);
        if (index < 0) {
            atomic_store_explicit(&tick_at_neglect,
                                  atomic_load_explicit(&header->tick, memory_order_relaxed),
                                  memory_order_relaxed);
        }
    }
    if (index < 0) {
        index = take_fresh(thread, header);
    }
    if (index < 0) {
        index = wait_where_barren(thread, header, &starves);
    }
    if (index < 0) {
        return -EAGAIN;
    }
    struct ag_chunk_control *control = &ag_recorder.controls[index];
    unsigned char *bytes = chunk_bytes_at((uint32_t)index);
    if (!bytes) {
        return -ENOMEM;
    }
    atomic_fetch_add_explicit(&header->n_chunks_in_use, 1, memory_order_relaxed);
    *ret_control = control;
    *ret_words = (uint64_t *)bytes;
    return 0;
}

int64_t ag_chunk_supply_take_counters(enum ag_counter_chunk kind, unsigned char **ret_bytes) {
    struct ag_segment_header *header = ag_recorder.header;
    int64_t index = pop_free(/* thread= */ NULL, header);
    if (index < 0) {
        index = take_fresh(/* thread= */ NULL, header);
    }
    unsigned char *bytes = index >= 0 ? chunk_bytes_at((uint32_t)index) : NULL;
    if (!bytes) {
        return -1;
    }
    memset(bytes, 0, AG_CHUNK_BYTES);
    struct ag_chunk_control *control = &ag_recorder.controls[index];
    control->slot = ag_recorder.slot_index;
    control->slot_generation = ag_recorder.slot_generation;
    control->stream = kind;
    /* release: the fields above are valid when the writer reads the state */
    atomic_store_explicit(&control->state, AG_CHUNK_COUNTERS, memory_order_release);
    *ret_bytes = bytes;
    return index;
}
