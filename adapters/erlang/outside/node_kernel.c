/* node_kernel.c: loads the programs of node.bpf.c into the kernel, writes the addresses of this
 * node to their maps, and passes their records to node_capture.c and node_collections.c. */
#include "node_kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node_probes.h"
#include "node_stacks.h"

extern const unsigned char node_object[];
extern const uint64_t node_object_bytes;

struct node_kernel {
    struct bpf_object *object;
    struct ring_buffer *ring;
    struct node_probes probes;
    bool has_sessions;
    uint64_t period_bytes;
    int current_of, settings, lost, watched; /* maps */
    uint64_t lost_reported;
};

static int print_nothing(enum libbpf_print_level level, const char *format, va_list arguments) {
    (void)level;
    (void)format;
    (void)arguments;
    return 0;
}

static int take_record(void *context, void *record, size_t n_bytes) {
    const struct node_event *event = record;
    struct node *node = context;
    if (n_bytes < offsetof(struct node_event, words)) {
        return 0;
    }
    size_t n_words = (n_bytes - offsetof(struct node_event, words)) / 8;
    n_words = event->n_words < n_words ? (size_t)event->n_words : n_words;
    if (event->kind == NODE_EVENT_SAMPLE) {
        node_capture_note(node, event, n_words);
    } else if (event->kind == NODE_EVENT_COLLECTION) {
        node_collections_note(node, event, n_words);
    }
    return 0;
}

/* Writes the ranges of generated code. Joins neighboring ranges, so that at most NODE_CODE_AREAS
 * remain. */
static void find_areas(const struct node_code *code, struct node_bpf_settings *settings) {
    const uint64_t near = UINT64_C(64) << 20; /* joining areas that are closer does no harm */
    for (size_t i = 0; i < code->n; i++) {
        const uint64_t low = code->items[i].low, high = code->items[i].high;
        uint32_t n = settings->n_areas;
        if (n > 0 && (low - settings->areas[n - 1].high < near || n == NODE_CODE_AREAS ||
                      low < settings->areas[n - 1].high)) {
            if (high > settings->areas[n - 1].high) {
                settings->areas[n - 1].high = high;
            }
        } else {
            settings->areas[n].low = low;
            settings->areas[n].high = high;
            settings->n_areas++;
        }
    }
}

/* The number of bytes of a process structure that the BPF programs read: to the end of the word
 * with the largest offset. The offsets are the first fields of the settings. */
static uint32_t process_bytes_read(const struct node_bpf_settings *settings) {
    const uint32_t *offsets = &settings->heap_top;
    const size_t n = offsetof(struct node_bpf_settings, n_areas) / sizeof *offsets;
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++) {
        last = offsets[i] > last ? offsets[i] : last;
    }
    return (last & ~7u) + 8;
}

static void write_settings(struct node *node) {
    const struct node_layout *layout = node->layout;
    const uint32_t zero = 0;
    struct node_bpf_settings settings = {
        .heap_top = layout->process_heap_top,
        .stack_top = layout->process_stack_top,
        .heap = layout->process_heap,
        .heap_end = layout->process_heap_end,
        .instruction = layout->process_instruction,
        .high_water = layout->process_high_water,
        .old_heap = layout->process_old_heap,
        .old_top = layout->process_old_top,
        .minor_count = layout->process_minor_count,
        .abandoned_heap = layout->process_abandoned_heap,
        .fragment_words = layout->process_fragment_words,
        .state = layout->process_state,
        .period_bytes = node->kernel->period_bytes,
    };
    settings.process_bytes = process_bytes_read(&settings);
    find_areas(&node->code, &settings);
    (void)bpf_map_update_elem(node->kernel->settings, &zero, &settings, BPF_ANY); // it has one slot
}

/* The kernel's name of a thread. */
static bool thread_name(int pid, const char *tid, char *ret_name, int limit) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/task/%s/comm", pid, tid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    const bool has_name = fgets(ret_name, limit, file) != NULL;
    fclose(file);
    if (has_name) {
        ret_name[strcspn(ret_name, "\n")] = '\0';
    }
    return has_name;
}

static void write_threads(struct node *node) {
    char path[64], name[32];
    const int pid = allogram_target_pid(node->target);
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        uint64_t address;
        if (tid != 0 && thread_name(pid, entry->d_name, name, sizeof name) &&
            (address = node_current_process_word(node, name)) != 0) {
            /* if this fails, the thread's stacks are read late (node_stacks.c, section 4) */
            (void)bpf_map_update_elem(node->kernel->current_of, &tid, &address, BPF_ANY);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

void node_kernel_update(struct node *node) {
    if (node->kernel != NULL) {
        write_settings(node);
        write_threads(node);
    }
}

static int report_load_error(int error, char *ret_problem, size_t problem_bytes) {
    const bool is_denied = error == -EPERM || error == -EACCES;
    snprintf(ret_problem, problem_bytes, "BPF programs cannot be loaded: %s%s", strerror(-error),
             is_denied ? "; run as root or with CAP_BPF and CAP_PERFMON" : "");
    return error;
}

/* Loads the programs, with or without the program for uprobe sessions, which older kernels
 * refuse. */
static int node_kernel_load(struct node_kernel *kernel, bool has_sessions) {
    kernel->object = bpf_object__open_mem(node_object, node_object_bytes, NULL);
    if (kernel->object == NULL) {
        return -errno;
    }
    struct bpf_program *session =
        bpf_object__find_program_by_name(kernel->object, "node_collection");
    int r = has_sessions ? bpf_program__set_expected_attach_type(
                               session, (enum bpf_attach_type)NODE_PROBES_SESSION)
                         : bpf_program__set_autoload(session, false);
    const int n_cpus = libbpf_num_possible_cpus();
    r = r < 0 ? r
              : bpf_map__set_max_entries(
                    bpf_object__find_map_by_name(kernel->object, "sample_events"),
                    n_cpus > 0 ? (uint32_t)n_cpus : 1);
    r = r < 0 ? r : bpf_object__load(kernel->object);
    kernel->has_sessions = has_sessions;
    if (r < 0) {
        bpf_object__close(kernel->object);
        kernel->object = NULL;
    }
    return r;
}

int node_kernel_start(struct node *node, char *ret_problem, size_t problem_bytes) {
    if (node->kernel != NULL) {
        return 0;
    }
    libbpf_set_print(print_nothing);
    struct node_kernel *kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL) {
        return -ENOMEM;
    }
    node->kernel = kernel;
    int r = node_kernel_load(kernel, /* has_sessions= */ true);
    r = r < 0 ? node_kernel_load(kernel, /* has_sessions= */ false) : r;
    if (r == 0) {
        const int ring = bpf_object__find_map_fd_by_name(kernel->object, "ring");
        kernel->settings = bpf_object__find_map_fd_by_name(kernel->object, "settings");
        kernel->current_of = bpf_object__find_map_fd_by_name(kernel->object, "current_of");
        kernel->lost = bpf_object__find_map_fd_by_name(kernel->object, "lost");
        kernel->watched = bpf_object__find_map_fd_by_name(kernel->object, "watched");
        kernel->ring = ring_buffer__new(ring, take_record, node, NULL);
        r = kernel->ring == NULL ? -errno : 0;
    }
    if (r < 0) {
        node_kernel_stop(node);
        return report_load_error(r, ret_problem, problem_bytes);
    }
    node_kernel_update(node);
    return 0;
}

void node_kernel_stop(struct node *node) {
    struct node_kernel *kernel = node->kernel;
    if (kernel == NULL) {
        return;
    }
    node_probes_detach(&kernel->probes);
    ring_buffer__free(kernel->ring);
    bpf_object__close(kernel->object);
    free(kernel);
    node->kernel = NULL;
}

int node_kernel_sample_program(struct node *node) {
    return bpf_program__fd(bpf_object__find_program_by_name(node->kernel->object, "node_sample"));
}

int node_kernel_readable(struct node *node) {
    return ring_buffer__epoll_fd(node->kernel->ring);
}

void node_kernel_drain(struct node *node) {
    if (node->kernel != NULL) {
        (void)ring_buffer__consume(node->kernel->ring); // the result of take_record: always 0
    }
}

uint64_t node_kernel_take_lost(struct node *node) {
    const uint32_t zero = 0;
    uint64_t n = 0;
    if (node->kernel == NULL || bpf_map_lookup_elem(node->kernel->lost, &zero, &n) != 0) {
        return 0;
    }
    const uint64_t since = n - node->kernel->lost_reported;
    node->kernel->lost_reported = n;
    return since;
}

uint64_t node_kernel_collections_seen(struct node *node) {
    const struct node_kernel *kernel = node->kernel;
    uint32_t thread, *before = NULL;
    uint64_t n = 0;
    struct node_watched *watched = malloc(sizeof *watched);
    while (watched != NULL && kernel != NULL &&
           bpf_map_get_next_key(kernel->watched, before, &thread) == 0) {
        n += bpf_map_lookup_elem(kernel->watched, &thread, watched) == 0 ? watched->n_seen : 0;
        before = &thread;
    }
    free(watched);
    return n;
}

void node_kernel_set_period(struct node *node, uint64_t period_bytes) {
    node->kernel->period_bytes = period_bytes;
    write_settings(node);
}

int node_kernel_watch_collections(struct node *node, char *ret_problem, size_t problem_bytes) {
    const int r = node_kernel_start(node, ret_problem, problem_bytes);
    if (r < 0 || node->kernel->probes.n > 0) {
        return r;
    }
    return node_probes_attach(node, node->kernel->object, node->kernel->has_sessions,
                              &node->kernel->probes, ret_problem, problem_bytes);
}
