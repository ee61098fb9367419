/* node_processes.c: lists all Erlang processes of a node, from its process table: identifier, name,
 * current function, stack, the sizes of heap, stack and queues, and the binaries to which the
 * process refers.
 *
 * The table never moves and its slots are single words: a slot is a process, empty, or marked as
 * being filled. A process may die while it is read. Its memory then has other contents, which the
 * check of the invariants refuses. So the list is no snapshot of one moment, but each row is a
 * process that existed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/little_endian.h"
#include "node_binaries.h"
#include "node_stacks.h"

enum {
    SLOTS_AT_ONCE = 8192,
    SLOTS_MOST = 1 << 27, /* the emulator's own limit (+P) */
    REGISTERED_NAME = 32,
    QUEUE_MOST = 1 << 30,
};

uint64_t node_process_word(const struct node_process *process, uint32_t offset) {
    return process->words[offset / 8];
}

int node_read_process(struct node *node, uint64_t address, struct node_process *ret_process) {
    ret_process->address = address;
    return allogram_target_read(node->target, address, ret_process->words,
                                node->layout->process_bytes);
}

bool node_process_is_sound(const struct node *node, const struct node_process *process) {
    const struct node_layout *layout = node->layout;
    const uint64_t heap = node_process_word(process, layout->process_heap),
                   heap_top = node_process_word(process, layout->process_heap_top),
                   stack_top = node_process_word(process, layout->process_stack_top),
                   heap_end = node_process_word(process, layout->process_heap_end);
    return heap != 0 && ((heap | heap_top | stack_top | heap_end) & 7) == 0 && heap <= heap_top &&
           heap_top <= stack_top && stack_top <= heap_end &&
           (heap_end - heap) / 8 == node_process_word(process, layout->process_heap_words);
}

struct address_list {
    uint64_t *items;
    size_t n, capacity;
};

static int add_address(struct address_list *list, uint64_t address) {
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 256;
        uint64_t *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL) {
            return -ENOMEM;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = address;
    return 0;
}

static int add_addresses(struct node *node, uint64_t slots, uint64_t n, struct address_list *list) {
    uint64_t part[SLOTS_AT_ONCE];
    for (uint64_t from = 0; from < n; from += SLOTS_AT_ONCE) {
        const uint64_t n_part = n - from < SLOTS_AT_ONCE ? n - from : SLOTS_AT_ONCE;
        int r = allogram_target_read(node->target, slots + from * 8, part, n_part * 8);
        for (uint64_t i = 0; r == 0 && i < n_part; i++) {
            /* a word with low bits is no address but the next free number */
            if (part[i] != 0 && part[i] % 8 == 0 && part[i] != node->no_process) {
                r = add_address(list, part[i]);
            }
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* The addresses of all processes, from the process table; the caller frees them. */
static int process_addresses(struct node *node, uint64_t **ret_addresses, size_t *ret_n) {
    uint8_t table[512];
    const struct node_layout *layout = node->layout;
    int r = allogram_target_read(node->target, node->process_table, table, layout->table_bytes);
    if (r < 0) {
        return r;
    }
    const uint32_t n_slots = ag_get_32(table + layout->table_size);
    if (n_slots > SLOTS_MOST ||
        ag_get_32(table + layout->table_element_bytes) != layout->process_bytes) {
        return -EBADMSG;
    }
    struct address_list list = {0};
    r = add_addresses(node, ag_get_64(table + layout->table_slots), n_slots, &list);
    if (r < 0) {
        free(list.items);
        return r;
    }
    *ret_addresses = list.items;
    *ret_n = list.n;
    return 0;
}

static bool is_alive(const struct node *node, const struct node_process *process) {
    const uint32_t state = (uint32_t)node_process_word(process, node->layout->process_state);
    return (state & (NODE_STATE_FREE | NODE_STATE_EXITING)) == 0 &&
           node_process_is_sound(node, process);
}

/* The name under which the process is registered; false: none. */
static bool registered_name(struct node *node, const struct node_process *process,
                            char ret_name[NODE_ATOM_BYTES]) {
    const uint64_t entry = node_process_word(process, node->layout->process_registered);
    uint64_t name;
    return entry != 0 && entry % 8 == 0 &&
           node_read_word(node, entry + REGISTERED_NAME, &name) == 0 &&
           node_atom_text(node, name, ret_name) == 0;
}

/* The current_function of process_info: the function in which the process waits, which may have no
 * frame of its own. */
static const char *current_function(struct node *node, const struct node_process *process,
                                    char text[NODE_FUNCTION_BYTES]) {
    const uint64_t instruction = node_process_word(process, node->layout->process_instruction),
                   current = node_process_word(process, node->layout->process_current);
    const struct node_function *function = node_code_find(&node->code, instruction);
    if (function != NULL && !node_function_is_plumbing(function)) {
        return function->name;
    }
    if (current != 0 && node_function_text(node, current, text) == 0) {
        return text;
    }
    return NULL;
}

static uint64_t queue_len(const struct node *node, const struct node_process *process) {
    const uint64_t taken = node_process_word(process, node->layout->process_queue),
                   incoming = node_process_word(process, node->layout->process_incoming);
    return (taken < QUEUE_MOST ? taken : 0) + (incoming < QUEUE_MOST ? incoming : 0);
}

static void report_process(struct node *node, const struct node_process *process,
                           struct allogram_answers *answers) {
    const struct node_layout *layout = node->layout;
    char id[NODE_IDENTIFIER_BYTES], name[NODE_ATOM_BYTES], function[NODE_FUNCTION_BYTES];
    if (node_identifier_text(node, process->words[0], id) < 0) {
        allogram_answers_lost(answers, 1, "processes without a number");
        return;
    }
    const uint64_t old_heap = node_process_word(process, layout->process_old_heap),
                   old_end = node_process_word(process, layout->process_old_end);
    struct node_binaries binaries;
    if (node_count_binaries(node, process, &binaries) < 0) {
        binaries = (struct node_binaries){UINT64_MAX, UINT64_MAX};
    }
    const struct allogram_process reported = {
        .size = sizeof reported,
        .id = id,
        .name = registered_name(node, process, name) ? name : NULL,
        .current_function = current_function(node, process, function),
        .heap_words = node_process_word(process, layout->process_heap_words) +
                      (old_end > old_heap ? (old_end - old_heap) / 8 : 0) +
                      node_process_word(process, layout->process_fragment_words),
        .stack_words = (node_process_word(process, layout->process_heap_end) -
                        node_process_word(process, layout->process_stack_top)) /
                       8,
        .queue = queue_len(node, process),
        .binaries = binaries.n,
        .binary_bytes = binaries.bytes,
    };
    struct allogram_stack *stack = allogram_answers_stack(answers);
    if (node_stack_of_waiting(node, process, stack) < 0) {
        stack = NULL;
    }
    allogram_answers_process(answers, &reported, stack);
}

int node_report_processes(struct node *node, struct allogram_answers *answers) {
    uint64_t *addresses;
    size_t n;
    const int r = process_addresses(node, &addresses, &n);
    if (r < 0) {
        return r;
    }
    uint64_t n_lost = 0;
    for (size_t i = 0; i < n; i++) {
        struct node_process process;
        if (node_read_process(node, addresses[i], &process) == 0 && is_alive(node, &process)) {
            report_process(node, &process, answers);
        } else {
            n_lost++;
        }
    }
    if (n_lost > 0) {
        allogram_answers_lost(answers, n_lost,
                              "processes that died or changed while they were read");
    }
    free(addresses);
    return 0;
}

/* Nine in ten of the first processes in the table must be sound. The others may change while they
 * are read, because they run, exit or are collected. */
static int check_once(struct node *node) {
    enum { CHECKED_MOST = 1000 };
    uint64_t *addresses;
    size_t n;
    const int r = process_addresses(node, &addresses, &n);
    if (r < 0) {
        return r;
    }
    size_t n_sound = 0;
    const size_t n_checked = n < CHECKED_MOST ? n : CHECKED_MOST;
    for (size_t i = 0; i < n_checked; i++) {
        struct node_process process;
        char id[NODE_IDENTIFIER_BYTES];
        n_sound += node_read_process(node, addresses[i], &process) == 0 &&
                   node_process_is_sound(node, &process) &&
                   node_identifier_text(node, process.words[0], id) == 0;
    }
    free(addresses);
    return n_checked > 0 && n_sound * 10 >= n_checked * 9 ? 0 : -EBADMSG;
}

/* If processes live for microseconds, most of them may be gone when they are read; in at least one
 * of several tries most of them still exist. With a wrong row no process is sound in any try. */
int node_check_processes(struct node *node) {
    enum { TRIES = 50 };
    const struct timespec pause = {.tv_nsec = 2000000};
    int r = check_once(node);
    for (int i = 1; i < TRIES && r == -EBADMSG; i++) {
        (void)nanosleep(&pause, NULL); /* a signal ends it early */
        r = check_once(node);
    }
    return r;
}
