/* node.c: the inspector of Erlang nodes, which `allogram observe` uses (allogram/inspector.h). It
 * finds out whether a process is an Erlang emulator, which version it is, and whether its
 * structures fit the row of that version.
 *
 * A stripped emulator keeps the names that its own loadable drivers may need, so every global
 * object is found by name, including the string of its version. A version without a row in
 * layout.def is refused, even if the row of a neighboring version seems to fit. */
#include "node.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/little_endian.h"
#include "node_capture.h"
#include "node_collections.h"
#include "node_kernel.h"
#include "node_stacks.h"

/* minimum time between two checks of the code map by node_code_catch_up */
enum { CATCH_UP_NS = 100 * 1000 * 1000 };

static const struct node_layout layouts[] = {
#define AG_NODE_LAYOUT(version, ...) {.erts_version = version, __VA_ARGS__},
#include "layout.def"
#undef AG_NODE_LAYOUT
};

AG_PRINTF(3, 4)
static int refuse(char *ret_problem, size_t problem_bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ret_problem, problem_bytes, format, arguments);
    va_end(arguments);
    return -ENOTSUP;
}

static void list_versions(char *ret_text, size_t limit) {
    size_t len = 0;
    ret_text[0] = '\0';
    for (size_t i = 0; i < AG_ARRAY_SIZE(layouts) && len < limit; i++) {
        len += (size_t)snprintf(ret_text + len, limit - len, "%s%s", i > 0 ? ", " : "",
                                layouts[i].erts_version);
    }
}

static int text_of(struct allogram_target *target, const char *symbol, char *ret_text,
                   size_t limit) {
    struct allogram_target_symbol found;
    const int r = allogram_target_symbol(target, symbol, &found);
    return r < 0 ? r : allogram_target_read_text(target, found.address, ret_text, limit);
}

/* Finds the version's row, or the reason why it is refused. */
static int choose_layout(struct node *node, char *ret_problem, size_t problem_bytes) {
    char release[16], erts[32], known[256];
    if (text_of(node->target, "etp_otp_release", release, sizeof release) < 0 ||
        text_of(node->target, "etp_erts_version", erts, sizeof erts) < 0) {
        return -ENOENT;
    }
    struct allogram_target_symbol jit;
    uint8_t has_jit[4] = {0};
    if (allogram_target_symbol(node->target, "etp_beamasm", &jit) < 0 ||
        allogram_target_read(node->target, jit.address, has_jit, sizeof has_jit) < 0 ||
        ag_get_32(has_jit) != 1) {
        return refuse(
            ret_problem, problem_bytes,
            "OTP %s (ERTS %s) runs without the JIT, but only nodes with the JIT are supported",
            release, erts);
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(layouts); i++) {
        if (strcmp(layouts[i].erts_version, erts) == 0) {
            node->layout = &layouts[i];
        }
    }
    if (node->layout == NULL) {
        list_versions(known, sizeof known);
        return refuse(ret_problem, problem_bytes,
                      "ERTS %s (OTP %s) is not supported; supported versions are %s; only native "
                      "frames are shown",
                      erts, release, known);
    }
    snprintf(node->version, sizeof node->version, "OTP %s, ERTS %s", release, erts);
    return 0;
}

/* The address of an exported object that has exactly N_BYTES bytes; N_BYTES 0: any size. */
static int address_of(struct node *node, const char *name, uint64_t n_bytes,
                      uint64_t *ret_address) {
    struct allogram_target_symbol found;
    const int r = allogram_target_symbol(node->target, name, &found);
    if (r < 0 || (n_bytes != 0 && found.n_bytes != n_bytes)) {
        return r < 0 ? r : -EBADMSG;
    }
    *ret_address = found.address;
    return 0;
}

static int value_of(struct node *node, const char *name, uint64_t *ret_value) {
    uint64_t address;
    const int r = address_of(node, name, 8, &address);
    return r == 0 ? node_read_word(node, address, ret_value) : r;
}

static int find_schedulers(struct node *node) {
    static const struct {
        const char *array, *count;
    } names[NODE_SCHEDULER_KINDS] = {
        [NODE_SCHEDULER_NORMAL] = {"erts_aligned_scheduler_data", "erts_no_schedulers"},
        [NODE_SCHEDULER_CPU] = {"erts_aligned_dirty_cpu_scheduler_data",
                                "erts_no_dirty_cpu_schedulers"},
        [NODE_SCHEDULER_IO] = {"erts_aligned_dirty_io_scheduler_data",
                               "erts_no_dirty_io_schedulers"},
    };
    for (int kind = 0; kind < NODE_SCHEDULER_KINDS; kind++) {
        uint64_t count;
        int r = value_of(node, names[kind].array, &node->schedulers[kind].array);
        if (r == 0) {
            r = value_of(node, names[kind].count, &count);
        }
        if (r < 0 || count > NODE_SCHEDULERS_MOST) {
            return r < 0 ? r : -EBADMSG;
        }
        node->schedulers[kind].n = (uint32_t)count;
    }
    return 0;
}

static int find_tables(struct node *node) {
    int r = address_of(node, "erts_proc", node->layout->table_bytes, &node->process_table);
    if (r == 0) {
        r = address_of(node, "erts_invalid_process", node->layout->process_bytes,
                       &node->no_process);
    }
    if (r == 0) {
        r = address_of(node, "erts_atom_table", 0, &node->atom_table);
    }
    if (r == 0) {
        r = allogram_target_symbol(node->target, "erts_dirty_process_main", &node->dirty_main);
    }
    return r == 0 ? find_schedulers(node) : r;
}

static void load_code(struct node *node) {
    const uint64_t stamp = allogram_target_code_stamp(node->target);
    if (stamp != node->code_stamp && node_code_load(&node->code, node->target) == 0) {
        node->code_stamp = stamp;
        node_kernel_update(node);
    }
}

bool node_code_catch_up(struct node *node) {
    const uint64_t time_ns = ag_monotonic_ns(), stamp = node->code_stamp;
    if (time_ns - node->caught_up_ns < CATCH_UP_NS) {
        return false;
    }
    node->caught_up_ns = time_ns;
    load_code(node);
    return node->code_stamp != stamp;
}

static void node_close(void *state) {
    struct node *node = state;
    node_kernel_stop(node);
    node_capture_close(node);
    node_collections_close(node);
    node_code_clear(&node->code);
    free(node);
}

static int prepare(struct node *node, char *ret_problem, size_t problem_bytes) {
    int r = choose_layout(node, ret_problem, problem_bytes);
    if (r < 0) {
        return r;
    }
    r = find_tables(node);
    if (r == 0) {
        r = node_check_processes(node);
    }
    if (r < 0) {
        return refuse(ret_problem, problem_bytes,
                      "ERTS %s: the structures in memory are not those of this version (%s); this "
                      "may be a modified build",
                      node->layout->erts_version, strerror(-r));
    }
    node->code_stamp = allogram_target_code_stamp(node->target);
    r = node_code_load(&node->code, node->target);
    if (r < 0) {
        return refuse(ret_problem, problem_bytes,
                      "ERTS %s: its list of generated code cannot be read (%s)",
                      node->layout->erts_version, strerror(-r));
    }
    return 0;
}

static int node_open(struct allogram_target *target, void **ret_state, char *ret_problem,
                     size_t problem_bytes) {
    struct node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return -ENOMEM;
    }
    node->target = target;
    const int r = prepare(node, ret_problem, problem_bytes);
    if (r < 0) {
        node_close(node);
        return r;
    }
    *ret_state = node;
    return 0;
}

static const char *node_version(void *state) {
    return ((struct node *)state)->version;
}

static bool node_owns(void *state, uint64_t pc) {
    const struct node *node = state;
    return pc >= node->code.low && pc < node->code.high && node_code_find(&node->code, pc) != NULL;
}

static void node_refresh(void *state) {
    load_code(state);
}

static int processes(void *state, struct allogram_answers *answers) {
    load_code(state);
    return node_report_processes(state, answers);
}

static int code(void *state,
                bool (*visit)(void *context, uint64_t address, uint64_t n_bytes, const char *name),
                void *context) {
    const struct node *node = state;
    for (size_t i = 0; i < node->code.n; i++) {
        const struct node_function *function = &node->code.items[i];
        if (!visit(context, function->low, function->high - function->low, function->name)) {
            break;
        }
    }
    return 0;
}

const struct allogram_inspector ag_inspector_erlang = {
    .size = sizeof(struct allogram_inspector),
    .runtime = "beam",
    .open = node_open,
    .close = node_close,
    .version = node_version,
    .owns = node_owns,
    .refresh = node_refresh,
    .stack = node_stack_of_sample,
    .capture_program = node_capture_program,
    .watch_collections = node_collections_watch,
    .collections = node_collections_report,
    .choose_word = node_collections_choose_word,
    .is_new_word = node_collections_is_new_word,
    .processes = processes,
    .allocators = node_report_allocators,
    .code = code,
};
