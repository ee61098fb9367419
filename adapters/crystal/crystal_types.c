/* crystal_types.c: the adapter of Crystal. In the profiled process, it determines the type of an
 * object from the type number at the object's beginning. The objects are blocks of the Boehm
 * collector, whose adapter records them and calls this adapter (bdwgc/object_reader.h).
 *
 * 1. When the type is read. An object's type number is its first 32 bits. The program writes it
 * after the allocation and after the initializers of instance variables, which may allocate
 * themselves. The number of a String is written after the contents of the String. So each block is
 * read when its thread calls the collector again. If it has no number then, it is read once more:
 * 32 blocks later, or when the program frees it, or at the end. Until then the block's address is
 * in a ring buffer of the thread. The address is stored inverted, so that it does not keep the
 * block alive. After a collection only live blocks are read.
 *
 * 2. What is recorded. A call that allocates usually makes objects of one type. So the type is
 * recorded once for a stack and holds for all blocks of the stack: an event needs no room for its
 * type and never waits for the type. A block may deviate from the type of its stack, because
 * compilers merge the allocations of two branches. It then gets a stack of its own: in the tree of
 * stacks, a new node, which names the type, below the stack's node. The id of this node is written
 * into the block's event, if the event's chunk (a part of the memory that is shared with the
 * writer) still belongs to the thread. If a stack has too many deviating types, its blocks are not
 * objects but buffers, whose first elements look like type numbers. Reports recognize such a stack
 * by its frames and ignore the numbers.
 *
 * 3. A buffer may begin with a number that looks like a type number. Numbers from NUMBERS_MOST on,
 * which no program has, are not used, nor is the number of String if the block is not a String.
 * Other numbers may be recorded by mistake, but reports use a number only if the code that
 * allocated the block stores this number (crystal_site.c). */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allogram/allogram.h"
#include "base/own_memory.h"
#include "base/raw_syscall.h"
#include "bdwgc/object_reader.h"
#include "embed/adapter.h"
#include "embed/host_heaps.h"
#include "embed/tracker.h"
#include "hook/elf_symbols.h"
#include "hook/first_environment.h"
#include "hook/next_symbol.h"
#include "record/event_fast.h"

enum {
    NUMBERS_MOST = 65000, /* types that can be registered */
    STRING_NUMBER = 1,    /* of the type String, in all programs of Crystal 1.0 to 1.14 */
    STACKS_MOST = 1 << 24,
    RING_BLOCKS = 32,
    DEVIANTS_MOST = 8, /* maximum number of deviating types of one stack */
    PAIRS = 1 << 14,   /* maximum number of pairs of a stack and a deviating type */
    RINGS_MOST = 4096,
};

struct pending {
    uintptr_t hidden;              /* the address, inverted; 0: none */
    uint32_t stack, n_collections; /* `n_collections` when the block was allocated */
    uint32_t bytes;                /* 0: unknown */
    uint64_t *event, *words;       /* the event's words, and the chunk that contains them */
    uint64_t sequence;             /* number of the chunk */
};
struct ring {
    struct pending blocks[RING_BLOCKS];
    uint64_t n;               /* blocks that were stored since the start */
    struct ag_thread *thread; /* owner of the chunk that contains the events */
};

static __thread struct ring *own_ring __attribute__((tls_model("initial-exec")));
static struct ring *rings; /* mapped; RINGS_MOST of them, touched only when used */
static _Atomic uint32_t n_rings, n_collections;
/* For each stack: its type in the lower 24 bits (0: none yet), and in the upper 8 bits the number
 * of deviating types that were seen. */
static _Atomic uint32_t *types_of_stacks;
static _Atomic uint32_t *types_of_numbers; /* ids of allogram_register_type, by type number */
static _Atomic uint64_t *pairs;            /* stack << 32 | type that deviates */

#define TYPE_OF(word) ((word)&0xffffff)
#define N_DEVIANTS(word) ((word) >> 24)

static struct ring *ring_of_thread(void) {
    if (!own_ring) {
        const uint32_t at = atomic_fetch_add_explicit(&n_rings, 1, memory_order_relaxed);
        own_ring = at < RINGS_MOST ? &rings[at] : NULL;
    }
    return own_ring;
}

/* The contents of the file of `run --crystal-types` (crystal_table.c describes its form), or
 * NULL. */
static struct {
    const char *bytes;
    size_t length;
} table;

static void map_table(const char *path) {
    const long fd =
        path && path[0] ? ag_syscall3(SYS_open, (long)path, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (fd < 0) {
        return;
    }
    const long length = ag_syscall3(SYS_lseek, fd, 0, SEEK_END);
    const long bytes =
        length > 0 ? ag_syscall6(SYS_mmap, 0, length, PROT_READ, MAP_PRIVATE, fd, 0) : -1;
    (void)ag_syscall1(SYS_close, fd);
    if (!ag_syscall_failed(bytes)) {
        table.bytes = (const char *)bytes;
        table.length = (size_t)length;
    }
}

/* The name that the table has for the number DIGITS, or NULL. The name ends at the end of its
 * line. */
static const char *name_in_table(const char *digits, size_t n_digits, size_t *ret_length) {
    static const char before[] = " - ", behind[] = "}: ";
    const size_t head = strlen(before) + n_digits + strlen(behind);
    for (size_t at = 0; at + head < table.length; at++) {
        const char *line = table.bytes + at;
        if (memcmp(line, before, strlen(before)) == 0 &&
            memcmp(line + strlen(before), digits, n_digits) == 0 &&
            memcmp(line + strlen(before) + n_digits, behind, strlen(behind)) == 0) {
            const char *name = line + head;
            size_t length = 0;
            while (at + head + length < table.length && name[length] != '\n') {
                length++;
            }
            *ret_length = length;
            return name;
        }
    }
    return NULL;
}

/* Registers the type as "#187", or with its name as "#187 Point". */
static uint32_t register_number(uint32_t number) {
    char name[1024] = "#";
    size_t at = 1, length = 0;
    for (uint32_t power = 10000; power > 0; power /= 10) {
        if (number >= power || power == 1) {
            name[at++] = (char)('0' + number / power % 10);
        }
    }
    const char *found = name_in_table(name + 1, at - 1, &length);
    if (found && length + at + 2 < sizeof(name)) {
        name[at++] = ' ';
        memcpy(name + at, found, length);
        at += length;
    }
    name[at] = '\0';
    const uint32_t type = allogram_register_type(name, "crystal");
    atomic_store_explicit(&types_of_numbers[number], type, memory_order_relaxed);
    return type;
}

static uint32_t type_of_number(uint32_t number) {
    const uint32_t type = atomic_load_explicit(&types_of_numbers[number], memory_order_relaxed);
    return type != 0 ? type : register_number(number);
}

static void report_stack(uint32_t stack, uint32_t type) {
    const struct ag_record record = {.kind = AG_RECORD_STACK_TYPE,
                                     .u.stack_type = {.stack = stack, .type = type}};
    ag_recorder_append(&record);
}

/* Stores the pair and returns whether it is new. If the table is full, the pair is not stored, and
 * the function returns true. */
static bool is_new_pair(uint32_t stack, uint32_t type) {
    const uint64_t pair = (uint64_t)stack << 32 | type;
    uint32_t at = (uint32_t)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 50);
    for (int i = 0; i < RING_BLOCKS; i++, at = (at + 1) & (PAIRS - 1)) {
        uint64_t found = atomic_load_explicit(&pairs[at], memory_order_relaxed);
        if (found == pair) {
            return false;
        }
        if (found == 0 &&
            atomic_compare_exchange_strong_explicit(&pairs[at], &found, pair, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            return true;
        }
    }
    return true;
}

/* Replaces the stack in the block's event by one with a node for the type, if the event's chunk
 * still belongs to this thread. */
static void give_leaf(const struct ring *ring, const struct pending *block, uint32_t type) {
    struct ag_thread *thread = ag_thread_current;
    const uint32_t site = ag_defined_names_site(&ag_host.types, type);
    if (ring->thread != thread || thread->words != block->words ||
        thread->sequence != block->sequence || site == 0) {
        return;
    }
    const uint32_t node = ag_node_intern_fast(&ag_recorder.space->tree, block->stack, site);
    if (node != 0) {
        const uint64_t bytes = (uint32_t)block->event[1];
        __atomic_store_n(&block->event[1], (uint64_t)node << 32 | bytes, __ATOMIC_RELAXED);
    }
}

static void learn(const struct ring *ring, const struct pending *block, uint32_t number) {
    _Atomic uint32_t *known = &types_of_stacks[block->stack];
    uint32_t word = atomic_load_explicit(known, memory_order_relaxed);
    const uint32_t type = type_of_number(number);
    if (type == 0 || TYPE_OF(word) == type || N_DEVIANTS(word) == DEVIANTS_MOST) {
        return;
    }
    if (word == 0 && atomic_compare_exchange_strong_explicit(
                         known, &word, type, memory_order_relaxed, memory_order_relaxed)) {
        report_stack(block->stack, type);
        return;
    }
    if (TYPE_OF(word) == type) {
        return; /* another thread has stored this type first */
    }
    if (is_new_pair(block->stack, type)) {
        atomic_fetch_add_explicit(known, UINT32_C(1) << 24, memory_order_relaxed);
    }
    give_leaf(ring, block, type);
}

/* Whether a block that begins with the number of String is one: after the number, a String has the
 * number of its bytes, the number of its characters or 0, and its text, which ends with a NUL. A
 * block of unknown size (block_bytes 0) counts as a String. */
static bool is_string(uintptr_t address, uint32_t block_bytes) {
    enum { HEAD_BYTES = 12 };
    const volatile uint32_t *head = (const volatile uint32_t *)address;
    return block_bytes == 0 ||
           (block_bytes > HEAD_BYTES + 1 && head[1] == block_bytes - HEAD_BYTES - 1 &&
            head[2] <= head[1] && ((const volatile char *)address)[block_bytes - 1] == '\0');
}

/* Returns the type number. Returns 0 if the block does not begin with one (the program has not
 * written it yet), or if the block is dead; in the latter case also sets `hidden` to 0. */
static uint32_t read_number(struct pending *block) {
    const uintptr_t address = ~block->hidden;
    if (block->n_collections != atomic_load_explicit(&n_collections, memory_order_relaxed) &&
        !ag_bdwgc_block_is_alive(address)) {
        block->hidden = 0;
        return 0;
    }
    const uint32_t number = *(const volatile uint32_t *)address;
    if (number == STRING_NUMBER && !is_string(address, block->bytes)) {
        return 0;
    }
    return number < NUMBERS_MOST ? number : 0;
}

/* Records the type in the trace, then calls the program's tracker (callbacks, allogram.h), which
 * may allocate and so use the ring. */
static void report_type(const struct ring *ring, const struct pending *block, uint32_t number) {
    const uintptr_t address = ~block->hidden;
    if (block->stack != 0) {
        learn(ring, block, number);
    }
    if (AG_UNLIKELY(allogram_mode_ & ALLOGRAM_FREES_)) {
        ag_tracker_complete(ag_bdwgc_heap, address);
    }
}

/* If the block's type number is written, removes the block from the ring and reports its type. */
static void settle(const struct ring *ring, struct pending *place) {
    const struct pending block = *place;
    const uint32_t number = read_number(place);
    if (number != 0) {
        place->hidden = 0;
        report_type(ring, &block, number);
    }
}

/* A tracker of the program is called for each object while the object is live, so all waiting
 * blocks are read at each call of the collector. */
AG_COLD static void look_at_all(struct ring *ring) {
    for (size_t i = 0; i < RING_BLOCKS && !ag_tracker_is_inside(); i++) {
        if (ring->blocks[i].hidden != 0) {
            settle(ring, &ring->blocks[i]);
        }
    }
}

static void look_at_last(void) {
    struct ring *ring = own_ring;
    if (AG_UNLIKELY(allogram_mode_ & ALLOGRAM_FREES_) && ring) {
        look_at_all(ring);
        return;
    }
    struct pending *last = ring ? &ring->blocks[(ring->n - 1) % RING_BLOCKS] : NULL;
    if (last && last->hidden != 0) {
        settle(ring, last);
    }
}

static void look_at_freed(uintptr_t address) {
    struct ring *ring = own_ring;
    for (size_t i = 0; ring && i < RING_BLOCKS; i++) {
        if (ring->blocks[i].hidden == ~address) {
            struct pending block = ring->blocks[i];
            ring->blocks[i].hidden = 0;
            settle(ring, &block);
        }
    }
}

/* Finds the event of the block, which is the last one of its thread. Returns false in three cases:
 * the block is no sample; its stack was not kept, or has DEVIANTS_MOST deviating types, so that no
 * type is recorded; or a signal handler that interrupted the recorder allocated the block, and its
 * event is not in the thread's chunk. */
static bool find_event(const struct ag_thread *thread, uintptr_t address,
                       struct pending *ret_block) {
    if (!thread->control || thread->cursor - thread->words < 2) {
        return false;
    }
    uint64_t *event = thread->cursor - 2;
    const uint32_t stack = (uint32_t)(event[1] >> 32);
    if (AG_WORD_KIND(event[0]) != AG_WORD_ALLOC || event[0] >> 16 != (address & UINT64_MAX >> 16) ||
        stack < AG_NODE_FIRST || stack >= STACKS_MOST ||
        N_DEVIANTS(atomic_load_explicit(&types_of_stacks[stack], memory_order_relaxed)) ==
            DEVIANTS_MOST) {
        return false;
    }
    ret_block->stack = stack;
    ret_block->bytes = (uint32_t)event[1];
    ret_block->event = event;
    ret_block->words = thread->words;
    ret_block->sequence = thread->sequence;
    return true;
}

static void take_block(uintptr_t address) {
    struct ring *ring = ring_of_thread();
    struct ag_thread *thread = ag_thread_current;
    struct pending block = {.hidden = ~address,
                            .n_collections =
                                atomic_load_explicit(&n_collections, memory_order_relaxed)};
    if (!ring || (!find_event(thread, address, &block) && !(allogram_mode_ & ALLOGRAM_FREES_))) {
        return;
    }
    struct pending *place = &ring->blocks[ring->n % RING_BLOCKS];
    struct pending before = *place;
    if (AG_UNLIKELY(allogram_mode_ & ALLOGRAM_FREES_) && before.hidden != 0 &&
        ag_tracker_is_inside() && read_number(&before) == 0 && before.hidden != 0) {
        return; /* a block made by a callback must not replace a block without a number */
    }
    ring->n++;
    before.words = ring->thread == thread ? before.words : NULL; /* the event is in the chunk of
                                                                  * another thread */
    ring->thread = thread;
    *place = block;
    if (before.hidden != 0) {
        settle(ring, &before);
    }
}

static void count_collection(void) {
    atomic_fetch_add_explicit(&n_collections, 1, memory_order_relaxed);
}

/* Clears the type number of an earlier object, which must not be read as that of the new object.
 * The program expects no certain contents in this memory. */
static void clear_number(uintptr_t address, size_t bytes) {
    if (address != 0 && bytes >= sizeof(uint32_t)) {
        *(volatile uint32_t *)address = 0;
    }
}

static const struct ag_object_reader reader = {.uncleared = clear_number,
                                               .allocated = take_block,
                                               .returned = look_at_last,
                                               .freeing = look_at_freed,
                                               .collecting = count_collection};

/* ---- the adapter ---- */

static bool is_crystal(void) {
    static const char *const names[] = {"__crystal_main"};
    struct ag_symbol_place place;
    struct ag_elf_symbol found = {0};
    struct ag_elf_symbols symbols;
    if (ag_symbol_find(names[0], AG_SYMBOL_FIRST, NULL, &place) && place.in_executable) {
        return true;
    }
    if (ag_elf_symbols_open("/proc/self/exe", &symbols) == 0) {
        (void)ag_elf_symbols_find(&symbols, names, 1, &found);
        ag_elf_symbols_close(&symbols);
    }
    return found.address != 0;
}

static enum ag_adapter_answer crystal_start(struct ag_runtime_definition *ret_runtime) {
    if (ag_bdwgc_heap == 0 || !is_crystal()) {
        return AG_ADAPTER_ABSENT;
    }
    types_of_stacks = ag_own_memory_take_wiped(STACKS_MOST * sizeof(*types_of_stacks));
    types_of_numbers = ag_own_memory_take(NUMBERS_MOST * sizeof(*types_of_numbers));
    pairs = ag_own_memory_take_wiped(PAIRS * sizeof(*pairs));
    rings = ag_own_memory_take_wiped(RINGS_MOST * sizeof(*rings));
    if (!types_of_stacks || !types_of_numbers || !pairs || !rings) {
        ret_runtime->note = "its blocks are recorded without types: out of memory";
        return AG_ADAPTER_REFUSED;
    }
    ag_object_reader = &reader;
    return AG_ADAPTER_ACTS;
}

static enum ag_adapter_answer attach(struct ag_runtime_definition *ret_runtime) {
    const enum ag_adapter_answer answer = crystal_start(ret_runtime);
    if (answer == AG_ADAPTER_ACTS) {
        map_table(ag_first_environment_value("ALLOGRAM_CRYSTAL_TYPES"));
    }
    return answer;
}

static void crystal_end(struct ag_runtime_definition *runtime) {
    const uint32_t taken = atomic_load_explicit(&n_rings, memory_order_relaxed);
    (void)runtime;
    for (uint32_t i = 0; i < taken && i < RINGS_MOST; i++) {
        for (size_t k = 0; k < RING_BLOCKS; k++) {
            struct pending *block = &rings[i].blocks[k];
            const struct pending last = *block;
            const uint32_t number = block->hidden != 0 ? read_number(block) : 0;
            if (number != 0 && last.stack != 0) {
                block->hidden = 0;
                learn(&rings[i], &last, number); /* the program's callbacks are not called at the
                                                  * end of the process */
            }
        }
    }
}

/* Attaches to a running program, after the collector's adapter. The environment is not read,
 * because another thread may be changing it: users pass the file of type names to the reports
 * instead. */
static enum ag_adapter_answer attach_late(struct ag_runtime_definition *ret_runtime,
                                          struct ag_late_start *ret_start) {
    (void)ret_start;
    return crystal_start(ret_runtime);
}

static int stand(bool is_on) {
    (void)is_on; /* the collector's adapter does all the work */
    return 0;
}

static const struct ag_late_adapter late = {.attach = attach_late, .stand = stand};
const struct ag_adapter ag_adapter_crystal AG_HIDDEN = {
    .attach = attach, .end = crystal_end, .late = &late};
