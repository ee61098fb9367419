/* binaries.c: records the binaries of an Erlang node that are outside of the processes' heaps (more
 * than 64 bytes; processes share them by a reference count), as blocks of the heap "binaries".
 *
 * 1. The emulator has an allocator for each kind of data, and calls each allocator through a table
 * of functions. binary_alloc is the allocator of all binaries, and of nothing else. Its row in the
 * table is
 *
 *     alloc, realloc, free, extra      8 bytes each; extra is passed to the three functions
 *
 * The first three addresses in the row are replaced by those of functions of this file, which call
 * the emulator's own functions and record the event. So nothing is missed: the table is the only
 * way to the allocator.
 *
 * 2. Some emulators do not export the table. But every emulator exports driver_alloc_binary and
 * driver_realloc_binary for drivers, and both call through the row. Their instructions contain the
 * addresses of the row's words, relative to the next instruction:
 *
 *     48 8b 35 D    mov  D(%rip), %rsi      extra
 *     bf T          mov  $T, %edi           T: the type of drivers' binaries
 *     ff 15 D       call *D(%rip)           alloc or realloc
 *
 * The four addresses that the two functions contain have to be those of one row, else the emulator
 * is left as it is.
 *
 * 3. The emulator fills the table in main, before it starts the first thread, and makes no binary
 * before that. So the row is changed at the emulator's first call of pthread_create: no other
 * thread reads the table at that moment, and every binary of the node is recorded.
 *
 * 4. The size of a block is that of the allocator's own accounting, with the block's header and
 * rounded up, because erlang:memory(binary) is the sum of these sizes. The word before the block
 * contains the size:
 *
 *     bit 63        a flag
 *     40 to 62      the place in the carrier (the mapping that contains the block), if the carrier
 *                   has room for several blocks
 *     3 to 39       the size; if the block has a carrier of its own (bit 0 is set), 3 to 62
 *     0 to 2        flags
 *
 * If the word and the requested size do not agree, the requested size, rounded up to 8 bytes, is
 * recorded.
 *
 * Which Erlang function made a binary is known to the tracer, which supplies the Erlang frames of
 * the stacks (tracer.c). */
#include "binaries.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "allogram/allogram.h"
#include "embed/host_events_fast.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"

typedef void *alloc_fn(uint64_t type, void *extra, uint64_t bytes);
typedef void *realloc_fn(uint64_t type, void *extra, void *block, uint64_t bytes);
typedef void free_fn(uint64_t type, void *extra, void *block);
struct allocator_row {
    alloc_fn *_Atomic alloc;
    realloc_fn *_Atomic realloc;
    free_fn *_Atomic free;
    void *_Atomic extra;
};
typedef int create_fn(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                      void *argument);

static struct {
    struct allocator_row *row; /* the emulator's, of binary_alloc */
    alloc_fn *alloc;           /* the emulator's functions */
    realloc_fn *realloc;
    free_fn *free;
    create_fn *create;
    uint32_t driver_type;
    allogram_heap heap;
    allogram_type binary, driver_binary;
    atomic_flag is_done;
} binaries = {.is_done = ATOMIC_FLAG_INIT};

/* ---- the emulator's allocator ---- */

enum { HEADER_BYTES = 8, UNIT_BYTES = 8, ROUNDING_MOST = 4096 };

static uint64_t size_of(const void *block, uint64_t requested_bytes) {
    const uint64_t own_carrier = 1, flags = 7 | UINT64_C(1) << 63,
                   place = ((UINT64_C(1) << 23) - 1) << 40;
    const uint64_t header = ((const uint64_t *)block)[-1];
    const uint64_t bytes = header & ~flags & (header & own_carrier ? UINT64_MAX : ~place);
    const bool is_size =
        bytes >= requested_bytes + HEADER_BYTES && bytes - requested_bytes <= ROUNDING_MOST;
    return is_size ? bytes : (requested_bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
}

static allogram_type type_of(uint64_t type) {
    return (uint32_t)type == binaries.driver_type ? binaries.driver_binary : binaries.binary;
}

/* The frame that called the current function. */
#define CALLER()                                                                       \
    (&(struct ag_host_caller){.sp = (const uintptr_t *)__builtin_frame_address(0) + 1, \
                              .rbp = *(const uintptr_t *)__builtin_frame_address(0)})

static void *allocate(uint64_t type, void *extra, uint64_t bytes) {
    void *block = binaries.alloc(type, extra, bytes);
    if (block != NULL) {
        const uint64_t block_bytes = size_of(block, bytes);
        if (ag_host_wants_alloc(block_bytes)) {
            ag_host_alloc(CALLER(), binaries.heap, (uintptr_t)block, block_bytes, type_of(type));
        }
    }
    return block;
}

/* Like the emulator's function, accepts NULL as the block. */
static void *reallocate(uint64_t type, void *extra, void *block, uint64_t bytes) {
    if (block == NULL) {
        return allocate(type, extra, bytes);
    }
    const struct ag_host_caller *caller = CALLER();
    const bool is_heard = ag_host_wants_free(binaries.heap, (uintptr_t)block);
    if (is_heard) {
        ag_host_realloc_begin(caller, binaries.heap, (uintptr_t)block);
    }
    void *made = binaries.realloc(type, extra, block, bytes);
    if (made != NULL) {
        const struct allogram_block reported = {
            .address = (uintptr_t)made, .bytes = size_of(made, bytes), .type = type_of(type)};
        if (ag_host_wants_alloc(reported.bytes)) {
            ag_host_realloc_end(caller, binaries.heap, (uintptr_t)block, &reported);
        }
    } else if (is_heard) {
        ag_host_realloc_failed(caller, binaries.heap, (uintptr_t)block);
    }
    return made;
}

static void release(uint64_t type, void *extra, void *block) {
    if (block != NULL && ag_host_wants_free(binaries.heap, (uintptr_t)block)) {
        ag_host_free(CALLER(), binaries.heap, (uintptr_t)block);
    }
    binaries.free(type, extra, block);
}

/* ---- its row in the table ---- */

/* In this section a relaxed order suffices, because the emulator has no other thread yet. */
static void replace_functions(void) {
    struct allocator_row *row = binaries.row;
    binaries.alloc = atomic_load_explicit(&row->alloc, memory_order_relaxed);
    binaries.realloc = atomic_load_explicit(&row->realloc, memory_order_relaxed);
    binaries.free = atomic_load_explicit(&row->free, memory_order_relaxed);
    /* without extra, binaries are in the memory of malloc (+MBe false), where they are recorded */
    if (binaries.alloc == NULL || binaries.realloc == NULL || binaries.free == NULL ||
        atomic_load_explicit(&row->extra, memory_order_relaxed) == NULL) {
        return;
    }
    const struct allogram_heap_options heap = {
        .size = sizeof heap, .name = "binaries", .allocator = "binary_alloc", .runtime = "beam"};
    binaries.heap = allogram_register_heap(&heap);
    binaries.binary = allogram_register_type("binary", "beam");
    binaries.driver_binary = allogram_register_type("driver binary", "beam");
    if (binaries.heap != 0) {
        atomic_store_explicit(&row->alloc, allocate, memory_order_relaxed);
        atomic_store_explicit(&row->realloc, reallocate, memory_order_relaxed);
        atomic_store_explicit(&row->free, release, memory_order_relaxed);
    }
}

static int watched_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument) {
    if (!atomic_flag_test_and_set_explicit(&binaries.is_done, memory_order_relaxed)) {
        replace_functions();
    }
    return binaries.create(thread, attributes, run, argument);
}

/* ---- finding the row ---- */

/* What the instructions of a function contain; 0: not found. */
struct found {
    uintptr_t extra, call;
    uint32_t type;
};

static uintptr_t target_of(const uint8_t *displacement) {
    int32_t distance;
    memcpy(&distance, displacement, sizeof distance);
    return (uintptr_t)displacement + sizeof distance + (uintptr_t)(intptr_t)distance;
}

/* Searches the instructions of the function for the three above, until the call. */
static struct found search(const struct ag_symbol_place *function) {
    enum { LONGEST = 7 };
    const uint8_t *code = function->address;
    struct found found = {0};
    for (size_t i = 0; i + LONGEST <= function->bytes && found.call == 0; i++) {
        if (code[i] == 0x48 && code[i + 1] == 0x8b && code[i + 2] == 0x35) {
            found.extra = target_of(code + i + 3);
            i += 6; /* the other bytes of the instruction, here and below */
        } else if (code[i] == 0xbf) {
            memcpy(&found.type, code + i + 1, sizeof found.type);
            i += 4;
        } else if (code[i] == 0xff && code[i + 1] == 0x15 && found.extra != 0) {
            found.call = target_of(code + i + 2);
        }
    }
    return found;
}

static struct allocator_row *find_row(const void *inside, uint32_t *ret_driver_type) {
    struct ag_symbol_place alloc, realloc;
    if (!ag_symbol_find("driver_alloc_binary", AG_SYMBOL_FIRST, inside, &alloc) ||
        !ag_symbol_find("driver_realloc_binary", AG_SYMBOL_FIRST, inside, &realloc) ||
        !alloc.in_executable || !realloc.in_executable) {
        return NULL;
    }
    const struct found of_alloc = search(&alloc), of_realloc = search(&realloc);
    const uintptr_t row = of_alloc.call;
    if (row == 0 || row % sizeof(uintptr_t) != 0 || of_alloc.type == 0 ||
        of_alloc.extra != row + offsetof(struct allocator_row, extra) ||
        of_realloc.call != row + offsetof(struct allocator_row, realloc) ||
        of_realloc.extra != of_alloc.extra) {
        return NULL;
    }
    *ret_driver_type = of_alloc.type;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the place of a variable of the emulator
    return (struct allocator_row *)row;
}

void ag_binaries_watch(const void *inside) {
    static const char name[] = "pthread_create";
    struct ag_symbol_place create;
    void *unused;
    binaries.row = find_row(inside, &binaries.driver_type);
    /* The emulator's import slot does not contain the function's address if the loader binds it at
     * the first call, so the function is looked up by name. */
    if (binaries.row != NULL &&
        ag_symbol_find(name, AG_SYMBOL_FIRST, (const void *)&binaries, &create)) {
        binaries.create = (create_fn *)create.address;
        (void)ag_import_replace(inside, name, (void *)watched_create, &unused); /* -ENOENT: the
            * emulator does not call it, and binaries are not recorded */
    }
}
