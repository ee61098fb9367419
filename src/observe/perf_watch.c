/* perf_watch.c: opens and reads the kernel's perf events on a process, for `observe`: one ring
 * buffer per CPU, and one event per thread, CPU and source (a kind of event, such as page faults).
 *
 * 1. Why so many events. The kernel has no events for a whole process. An event belongs to one
 * thread; threads that this thread starts can inherit it. An event that is inherited can write to a
 * shared buffer only if it is bound to one CPU. So each thread gets an event per CPU, and all
 * events of a CPU share one buffer.
 *
 * 2. No thread is missed and none is counted twice. Threads may start while the list of threads is
 * read. A new thread inherits the events of the thread that starts it, unless that thread has no
 * events yet. The list is read until it shows no new thread, and each new thread gets events. A
 * thread that has both inherited and own events writes everything twice. A sample contains the id
 * of its event: if a thread has events of its own, only their samples count.
 *
 * 3. The ring. The kernel writes and advances data_head; this file reads up to it and advances
 * data_tail. Records may wrap. The kernel drops records that do not fit, and later writes a record
 * with their number. All lengths in a record are checked: a sample without the requested format is
 * skipped.
 *
 * 4. Words. A source may watch a word of memory with the debug registers of the CPU: its event
 * occurs when a thread writes to the word. Each write costs an exception, so such an event is
 * limited to one sample, after which the kernel disables it. The kernel can limit only events that
 * threads do not inherit, so threads that start later watch no word. PERF_EVENT_IOC_REFRESH adds to
 * the limit of an event and does not set it. So each event gets its limit only once, and after its
 * sample the event is closed and opened again. The event's count shows whether the sample was
 * written.
 *
 * 5. Rights. Without the right to observe the kernel (perf_event_paranoid 2) events are limited to
 * user mode: time in system calls is not included, and the report says so. */
#include "perf_watch.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/byte_reader.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "table/array.h"

enum {
    PAGE_BYTES = 4096,
    RING_PAGES = 512, /* 2 MiB per CPU: 0.25 s at 999 Hz with 8 KiB of stack */
    /* what perf_event_mlock_kb allows every user: 516 KiB with the head page */
    RING_PAGES_MODEST = 128,
    RING_PAGES_LEAST = 8,
    MOST_CPUS = 4096,
    MOST_THREADS = 1 << 16,
    LISTINGS = 16, /* limit of how often the threads are listed */
    RECORD_BYTES = 1 << 16,
    WORD_EVENTS_MOST = 2048, /* setting a word takes some 5 us for each event */
    SOME_ADDRESS = 1 << 16,  /* of a word that is never watched, because the event is disabled */
};
/* ax bx cx dx si di bp sp ip, r8 to r15: the kernel's numbers 0 to 8 and 16 to 23 */
#define REGISTER_MASK UINT64_C(0xff01ff)
enum { N_REGISTERS = 17 };
static const uint8_t dwarf_number[N_REGISTERS] = {0, 3, 2,  1,  4,  5,  6,  7, 16,
                                                  8, 9, 10, 11, 12, 13, 14, 15};

struct event {
    int fd; /* -1: the thread ended before this event of a word was opened again */
    uint64_t id;
    uint32_t thread;
    uint16_t source, cpu;
    uint64_t since_ns; /* of a word: when the event began to watch the current word */
    bool is_armed;     /* of a word: the event has got its limit of one sample */
};
struct ring {
    struct perf_event_mmap_page *head; /* NULL: no such CPU */
    size_t n_bytes;                    /* bytes of data in the ring, a power of two */
    int fd;                            /* the event that the buffer belongs to */
};
struct ag_perf_watch {
    struct ag_remote_process process;
    struct ag_perf_source sources[AG_PERF_SOURCES];
    size_t n_sources, n_cpus;
    bool wakes_at_once, excludes_kernel, inherits_processes;
    struct ring *rings;
    struct event *events; /* sorted by id once all are open */
    size_t n_events;
    int programs[AG_PERF_SOURCES]; /* BPF programs of the sources; 0: none */
    pid_t *threads;                /* the threads that have events of their own, sorted */
    size_t n_threads;
    uint64_t lost;
    struct pollfd *polled;
    uint8_t record[RECORD_BYTES]; /* a copy of a record that wraps */
};

/* ---- opening ---------------------------------------------------------------- */

static struct perf_event_attr attributes_of(const struct ag_perf_watch *watch,
                                            const struct ag_perf_source *source) {
    struct perf_event_attr attr = {
        .type = source->type,
        .size = sizeof attr,
        .config = source->config,
        /* no PERF_SAMPLE_PERIOD: with it a software event is written each time it happens */
        .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
                       PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_REGS_USER |
                       PERF_SAMPLE_STACK_USER,
        .sample_regs_user = REGISTER_MASK,
        .sample_stack_user = source->stack_bytes,
        .disabled = 1,
        .inherit = 1,
        .inherit_thread = !watch->inherits_processes,
        .exclude_kernel = watch->excludes_kernel,
        .exclude_hv = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .mmap = source == &watch->sources[0],
    };
    if (source->rate != 0) {
        attr.freq = 1;
        attr.sample_freq = source->rate;
    } else {
        attr.sample_period = source->period;
    }
    if (watch->wakes_at_once) {
        attr.wakeup_events = 1;
    } else {
        attr.watermark = 1;
        attr.wakeup_watermark = RING_PAGES_MODEST * PAGE_BYTES / 2;
    }
    if (source->type == PERF_TYPE_BREAKPOINT) {
        attr.bp_type = HW_BREAKPOINT_W;
        attr.bp_addr = SOME_ADDRESS;
        attr.bp_len = AG_PERF_WORD_BYTES;
        attr.inherit = attr.inherit_thread = 0; /* the kernel limits the samples only of events that
                                                 * are not inherited */
        attr.exclude_kernel = 1;
    }
    return attr;
}

static int open_event(const struct ag_perf_watch *watch, const struct ag_perf_source *source,
                      pid_t thread, int cpu) {
    struct perf_event_attr attr = attributes_of(watch, source);
    const long fd =
        syscall(SYS_perf_event_open, &attr, thread, cpu, -1, (unsigned long)PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

static int map_ring(struct ring *ring, int fd) {
    for (size_t pages = RING_PAGES; pages >= RING_PAGES_LEAST; pages /= 2) {
        void *head =
            mmap(NULL, (pages + 1) * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (head != MAP_FAILED) {
            *ring = (struct ring){head, pages * PAGE_BYTES, fd};
            return 0;
        }
        if (errno != EPERM && errno != ENOMEM) {
            break;
        }
    }
    return -errno;
}

/* Opens an event that does not write to a ring yet. */
static int open_with_id(const struct ag_perf_watch *watch, size_t source, pid_t thread, size_t cpu,
                        struct event *ret_event) {
    const int fd = open_event(watch, &watch->sources[source], thread, (int)cpu);
    if (fd < 0) {
        return fd;
    }
    *ret_event = (struct event){
        .fd = fd, .thread = (uint32_t)thread, .source = (uint16_t)source, .cpu = (uint16_t)cpu};
    if (ioctl(fd, PERF_EVENT_IOC_ID, &ret_event->id) < 0) {
        const int r = -errno;
        (void)close(fd); /* nothing was written */
        return r;
    }
    return 0;
}

/* Makes the event write to the ring of its CPU. The first event of a CPU makes the ring. */
static int write_to_ring(struct ag_perf_watch *watch, const struct event *event) {
    struct ring *ring = &watch->rings[event->cpu];
    return ring->head == NULL                                          ? map_ring(ring, event->fd)
           : ioctl(event->fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0 ? -errno
                                                                       : 0;
}

static int add_event(struct ag_perf_watch *watch, size_t source, pid_t thread, size_t cpu) {
    struct event event;
    int r = open_with_id(watch, source, thread, cpu, &event);
    if (r < 0) {
        return r;
    }
    r = AG_ARRAY_ADD(watch->events, watch->n_events, event);
    if (r < 0) {
        (void)close(event.fd); /* nothing was written */
        return r;
    }
    /* from here on, the descriptor is closed with those of the other events */
    return write_to_ring(watch, &event);
}

/* Opens all sources on all CPUs for one thread. Returns 0 or a negative errno; -ESRCH: the thread
 * is gone, which is not a failure. */
static int add_thread(struct ag_perf_watch *watch, pid_t thread) {
    for (size_t cpu = 0; cpu < watch->n_cpus; cpu++) {
        for (size_t source = 0; source < watch->n_sources; source++) {
            const int r = add_event(watch, source, thread, cpu);
            if (r == -ENODEV || r == -ENXIO) {
                break; /* this CPU is offline */
            }
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

static int by_number(const void *a, const void *b) {
    const pid_t *first = a, *second = b;
    return *first < *second ? -1 : *first > *second;
}

static bool has_own(const struct ag_perf_watch *watch, pid_t thread) {
    return bsearch(&thread, watch->threads, watch->n_threads, sizeof thread, by_number) != NULL;
}

/* Adds all threads that have no events yet; returns how many, or a negative errno. */
static int add_new_threads(struct ag_perf_watch *watch, pid_t *list) {
    const size_t there = ag_remote_process_threads(&watch->process, list, MOST_THREADS);
    const size_t n = there < MOST_THREADS ? there : MOST_THREADS;
    int added = 0;
    pid_t *threads = reallocarray(watch->threads, watch->n_threads + n + 1, sizeof *threads);
    if (threads == NULL) {
        return -ENOMEM;
    }
    watch->threads = threads;
    const size_t n_before = watch->n_threads;
    for (size_t i = 0; i < n; i++) {
        if (bsearch(&list[i], threads, n_before, sizeof list[i], by_number) != NULL) {
            continue;
        }
        const int r = add_thread(watch, list[i]);
        if (r < 0 && r != -ESRCH) {
            return r;
        }
        threads[watch->n_threads++] = list[i];
        added++;
    }
    qsort(threads, watch->n_threads, sizeof *threads, by_number);
    return added;
}

static int open_events(struct ag_perf_watch *watch) {
    pid_t *list = calloc(MOST_THREADS, sizeof *list);
    int added = list != NULL ? 1 : -ENOMEM;
    for (int i = 0; i < LISTINGS && added > 0; i++) {
        added = add_new_threads(watch, list);
    }
    free(list);
    if (added < 0) {
        return added;
    }
    return watch->n_events != 0 ? 0 : -ESRCH;
}

static void close_events(struct ag_perf_watch *watch) {
    for (size_t i = 0; i < watch->n_cpus; i++) {
        if (watch->rings[i].head != NULL) {
            munmap(watch->rings[i].head, watch->rings[i].n_bytes + PAGE_BYTES);
        }
        watch->rings[i] = (struct ring){0};
    }
    for (size_t i = 0; i < watch->n_events; i++) {
        if (watch->events[i].fd >= 0) {
            close(watch->events[i].fd);
        }
    }
    watch->n_events = watch->n_threads = 0;
}

/* Each thread needs a descriptor per CPU and source, and all together may be more than the usual
 * limit of 1024. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* if it fails, opening fails with an error */
    }
}

bool ag_kernel_number(const char *path, long *ret_number) {
    FILE *file = fopen(path, "re");
    const bool is_read = file != NULL && fscanf(file, "%ld", ret_number) == 1;
    if (file != NULL) {
        (void)fclose(file); /* was only read */
    }
    return is_read;
}

static void explain_open_error(const struct ag_perf_watch *watch, int error, char message[512]) {
    const struct ag_remote_process *process = &watch->process;
    long paranoid = -1;
    (void)ag_kernel_number(AG_PERF_PARANOID, &paranoid); /* stays -1 if it cannot be read */
    switch (error) {
    case -EACCES:
    case -EPERM:
        (void)snprintf(
            message, 512,
            "%d (%s): the kernel does not permit perf events (kernel.perf_event_paranoid is %ld); run as root, or set sysctl "
            "kernel.perf_event_paranoid=1",
            process->pid, process->name, paranoid);
        break;
    case -EMFILE:
    case -ENFILE:
        (void)snprintf(
            message, 512,
            "%d (%s): %zu threads on %zu CPUs need more open files than allowed; raise the limit with ulimit -n",
            process->pid, process->name, watch->n_threads, watch->n_cpus);
        break;
    case -ENOSYS:
        (void)snprintf(
            message, 512,
            "%d (%s): this kernel has no perf events; use a kernel with CONFIG_PERF_EVENTS",
            process->pid, process->name);
        break;
    case -ENOENT:
        (void)snprintf(message, 512,
                       "%d (%s): this kernel does not have the needed perf events; use a kernel "
                       "with CONFIG_PERF_EVENTS, for --maps also with CONFIG_FTRACE_SYSCALLS",
                       process->pid, process->name);
        break;
    case -ESRCH:
        (void)snprintf(message, 512, "%d (%s): ended while its perf events were being opened",
                       process->pid, process->name);
        break;
    default:
        (void)snprintf(message, 512, "%d (%s): cannot open perf events: %s", process->pid,
                       process->name, strerror(-error));
        break;
    }
}

static int by_id(const void *a, const void *b) {
    const struct event *first = a, *second = b;
    return first->id < second->id ? -1 : first->id > second->id;
}

/* Opens the events with all features or, if that fails, without those that the kernel does not
 * permit or does not have. */
static int open_somehow(struct ag_perf_watch *watch) {
    int r = open_events(watch);
    if ((r == -EACCES || r == -EPERM) && !watch->excludes_kernel) {
        close_events(watch);
        watch->excludes_kernel = true;
        r = open_events(watch);
    }
    if (r == -EINVAL) { /* before Linux 5.13, child processes cannot be excluded: they inherit the
                         * events, too */
        close_events(watch);
        watch->inherits_processes = true;
        r = open_events(watch);
    }
    return r;
}

int ag_perf_watch_open(const struct ag_remote_process *process,
                       const struct ag_perf_source *sources, size_t n_sources, bool wakes_at_once,
                       struct ag_perf_watch **ret_watch, char ret_message[512]) {
    const long n_cpus = sysconf(_SC_NPROCESSORS_CONF);
    struct ag_perf_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL || n_sources > AG_PERF_SOURCES || n_cpus < 1 || n_cpus > MOST_CPUS) {
        (void)snprintf(ret_message, 512, "%d (%s): cannot open perf events: %s", process->pid,
                       process->name,
                       watch == NULL                 ? "out of memory"
                       : n_sources > AG_PERF_SOURCES ? "too many kinds of events were requested"
                       : n_cpus < 1                  ? "the number of CPUs cannot be determined"
                                                     : "the machine has too many CPUs");
        free(watch);
        return -ENOMEM;
    }
    watch->process = *process;
    watch->wakes_at_once = wakes_at_once;
    memcpy(watch->sources, sources, n_sources * sizeof *sources);
    watch->n_sources = n_sources;
    watch->n_cpus = (size_t)n_cpus;
    watch->rings = calloc(watch->n_cpus, sizeof *watch->rings);
    watch->polled = calloc(watch->n_cpus + 1, sizeof *watch->polled);
    raise_descriptor_limit();
    const int r = watch->rings != NULL && watch->polled != NULL ? open_somehow(watch) : -ENOMEM;
    if (r < 0) {
        explain_open_error(watch, r, ret_message);
        (void)ag_perf_watch_close(watch);
        return r;
    }
    qsort(watch->events, watch->n_events, sizeof watch->events[0], by_id);
    *ret_watch = watch;
    return 0;
}

struct ag_perf_watch *ag_perf_watch_close(struct ag_perf_watch *watch) {
    if (watch == NULL) {
        return NULL;
    }
    if (watch->rings != NULL) {
        close_events(watch);
    }
    free(watch->rings);
    free(watch->polled);
    free(watch->events);
    free(watch->threads);
    free(watch);
    return NULL;
}

/* ---- running ------------------------------------------------------------------ */

int ag_perf_watch_set_program(struct ag_perf_watch *watch, size_t source, int program) {
    watch->programs[source] = program;
    for (size_t i = 0; i < watch->n_events; i++) {
        if (watch->events[i].source == source &&
            ioctl(watch->events[i].fd, PERF_EVENT_IOC_SET_BPF, program) < 0) {
            return -errno;
        }
    }
    return 0;
}

static bool is_word(const struct ag_perf_watch *watch, const struct event *event) {
    return watch->sources[event->source].type == PERF_TYPE_BREAKPOINT;
}

/* Tests whether the debug registers notice a write. On some virtual machines the kernel opens the
 * event, but it never occurs. This thread writes to a word of its own and reads the event's count.
 * Returns 0, -EOPNOTSUPP if the write was not noticed, or another negative errno. */
static int try_word(void) {
    volatile uint64_t word = 0;
    struct perf_event_attr attr = {.type = PERF_TYPE_BREAKPOINT,
                                   .size = sizeof attr,
                                   .bp_type = HW_BREAKPOINT_W,
                                   .bp_addr = (uintptr_t)&word,
                                   .bp_len = AG_PERF_WORD_BYTES,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    const long fd = syscall(SYS_perf_event_open, &attr, /* this thread */ 0, /* any CPU */ -1, -1,
                            (unsigned long)PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    word = 1;
    uint64_t n_writes = 0;
    const int r = read((int)fd, &n_writes, sizeof n_writes) < 0 ? -errno
                  : n_writes == 0                               ? -EOPNOTSUPP
                                                                : 0;
    (void)close((int)fd); /* nothing was written */
    return r;
}

int ag_perf_watch_add_word(struct ag_perf_watch *watch, uint32_t stack_bytes) {
    const size_t source = watch->n_sources, n_before = watch->n_events;
    if (source == AG_PERF_SOURCES || watch->n_threads * watch->n_cpus > WORD_EVENTS_MOST) {
        return -E2BIG;
    }
    int r = try_word();
    if (r < 0) {
        return r;
    }
    watch->sources[source] = (struct ag_perf_source){
        .type = PERF_TYPE_BREAKPOINT, .period = 1, .stack_bytes = stack_bytes};
    for (size_t i = 0; r >= 0 && i < watch->n_threads; i++) {
        for (size_t cpu = 0; r >= 0 && cpu < watch->n_cpus; cpu++) {
            r = watch->rings[cpu].head != NULL ? add_event(watch, source, watch->threads[i], cpu)
                                               : 0;
            r = r == -ESRCH ? 0 : r; /* the thread has ended */
        }
    }
    while (r < 0 && watch->n_events > n_before) {
        (void)close(watch->events[--watch->n_events].fd); /* nothing was written */
    }
    watch->n_sources += r >= 0;
    qsort(watch->events, watch->n_events, sizeof watch->events[0], by_id);
    return r < 0 ? r : (int)source;
}

/* Opens an event of a word again after its sample. Without this, the event would never write
 * another sample since Linux 6.16: the kernel stops the event when it disables the event, but does
 * not start it when the event is enabled again. The old event is closed first, because the CPU has
 * only four debug registers. */
static int reopen_word(struct ag_perf_watch *watch, struct event *event) {
    const int program = watch->programs[event->source];
    (void)close(event->fd); /* nothing was written */
    event->fd = -1;
    int r = open_with_id(watch, event->source, (pid_t)event->thread, event->cpu, event);
    if (r < 0) {
        return r;
    }
    r = write_to_ring(watch, event);
    return r == 0 && program != 0 && ioctl(event->fd, PERF_EVENT_IOC_SET_BPF, program) < 0 ? -errno
                                                                                           : r;
}

static bool has_happened(const struct event *event) {
    uint64_t count;
    return read(event->fd, &count, sizeof count) == sizeof count && count > 0;
}

/* Lets the event watch the word of ATTR until its first sample. */
static int watch_word(struct ag_perf_watch *watch, struct event *event,
                      struct perf_event_attr *attr) {
    /* the change disables the event */
    int r = ioctl(event->fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, attr) < 0 ? -errno : 0;
    if (r == 0 && has_happened(event)) {
        r = reopen_word(watch, event);
        r = r == 0 && ioctl(event->fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, attr) < 0 ? -errno : r;
    }
    if (r == 0 && (event->is_armed ? ioctl(event->fd, PERF_EVENT_IOC_ENABLE, 0)
                                   : ioctl(event->fd, PERF_EVENT_IOC_REFRESH, 1)) < 0) {
        r = -errno;
    }
    event->is_armed |= r == 0;
    event->since_ns = ag_monotonic_ns();
    return r;
}

static void disable_source(struct ag_perf_watch *watch, size_t source) {
    for (size_t i = 0; i < watch->n_events; i++) {
        if (watch->events[i].source == source) {
            /* the event's thread may have ended */
            (void)ioctl(watch->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
        }
    }
}

int ag_perf_watch_set_word(struct ag_perf_watch *watch, size_t source, uint64_t address) {
    struct perf_event_attr attr = attributes_of(watch, &watch->sources[source]);
    attr.bp_addr = address;
    int r = 0;
    for (size_t i = 0; i < watch->n_events && r == 0; i++) {
        if (watch->events[i].source == source && watch->events[i].fd >= 0) {
            r = watch_word(watch, &watch->events[i], &attr);
            r = r == -ESRCH ? 0 : r; /* the thread has ended */
        }
    }
    if (r < 0) {
        disable_source(watch, source);
    }
    qsort(watch->events, watch->n_events, sizeof watch->events[0], by_id);
    return r;
}

int ag_perf_watch_start(struct ag_perf_watch *watch) {
    for (size_t i = 0; i < watch->n_events; i++) {
        if (!is_word(watch, &watch->events[i]) &&
            ioctl(watch->events[i].fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
            return -errno;
        }
    }
    return 0;
}

void ag_perf_watch_stop(struct ag_perf_watch *watch) {
    for (size_t i = 0; i < watch->n_events; i++) {
        /* the event's thread may have ended */
        (void)ioctl(watch->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
    }
}

bool ag_perf_watch_wait(struct ag_perf_watch *watch, int timeout_ms, int other) {
    nfds_t n = 0;
    watch->polled[n++] = (struct pollfd){.fd = other, .events = POLLIN};
    for (size_t i = 0; i < watch->n_cpus; i++) {
        if (watch->rings[i].head != NULL) {
            watch->polled[n++] = (struct pollfd){.fd = watch->rings[i].fd, .events = POLLIN};
        }
    }
    const int r = poll(watch->polled, n, timeout_ms);
    bool is_hung_up = r > 0;
    for (nfds_t i = 1; i < n; i++) {
        is_hung_up &= watch->polled[i].fd < 0 || (watch->polled[i].revents & POLLIN) == 0;
    }
    if (is_hung_up && (watch->polled[0].revents & POLLIN) == 0) {
        /* the threads for which the buffers were made have ended: from now on, every poll returns
         * at once */
        const struct timespec pause = {.tv_nsec = (long)timeout_ms * 1000000};
        (void)nanosleep(&pause, NULL); /* a signal interrupts it, as intended */
    }
    return r > 0 && (watch->polled[0].revents & POLLIN) != 0;
}

/* ---- reading -------------------------------------------------------------------- */
static uint64_t take_word(struct ag_byte_reader *reader) {
    return ag_byte_reader_take(reader, sizeof(uint64_t));
}

static struct event *event_of(const struct ag_perf_watch *watch, uint64_t id) {
    const struct event key = {.id = id};
    return bsearch(&key, watch->events, watch->n_events, sizeof key, by_id);
}

static void take_registers(struct ag_byte_reader *reader, struct ag_perf_sample *sample) {
    sample->has_registers = take_word(reader) != PERF_SAMPLE_REGS_ABI_NONE;
    if (!sample->has_registers) {
        return;
    }
    for (size_t i = 0; i < N_REGISTERS; i++) {
        sample->registers.value[dwarf_number[i]] = take_word(reader);
    }
    sample->registers.known = (1u << ALLOGRAM_REGISTERS) - 1;
    sample->result = sample->registers.value[0];       /* rax */
    sample->arguments[0] = sample->registers.value[5]; /* rdi */
    sample->arguments[1] = sample->registers.value[4]; /* rsi */
    sample->arguments[2] = sample->registers.value[1]; /* rdx */
}

static void take_stack(struct ag_byte_reader *reader, struct ag_perf_sample *sample) {
    const uint64_t reserved = take_word(reader);
    if (reserved == 0) {
        return;
    }
    const uint8_t *bytes = ag_byte_reader_skip(reader, reserved);
    const uint64_t filled = take_word(reader);
    sample->stack = bytes;
    sample->stack_bytes = filled < reserved ? filled : reserved;
}

static void read_sample(struct ag_perf_watch *watch, const struct ag_perf_sink *sink,
                        struct ag_byte_reader reader) {
    struct ag_perf_sample sample = {0};
    struct event *event = event_of(watch, take_word(&reader));
    (void)take_word(&reader); /* the instruction pointer, which may be in the kernel */
    const uint64_t ids = take_word(&reader);
    sample.time_ns = take_word(&reader);
    sample.address = take_word(&reader);
    take_registers(&reader, &sample);
    take_stack(&reader, &sample);
    sample.thread = (uint32_t)(ids >> 32);
    if (event != NULL) {
        sample.delay_ns = sample.time_ns > event->since_ns ? sample.time_ns - event->since_ns : 0;
    }
    if (reader.is_bad || event == NULL || (pid_t)(uint32_t)ids != watch->process.pid ||
        (event->thread != sample.thread && has_own(watch, (pid_t)sample.thread))) {
        return;
    }
    sample.source = event->source;
    sink->sample(sink->context, &sample);
}

static void read_record(struct ag_perf_watch *watch, const struct ag_perf_sink *sink,
                        const struct perf_event_header *header, const uint8_t *body) {
    struct ag_byte_reader reader = {body, body + header->size - sizeof *header, false};
    switch (header->type) {
    case PERF_RECORD_SAMPLE:
        read_sample(watch, sink, reader);
        break;
    case PERF_RECORD_LOST: /* id, how many */
        (void)take_word(&reader);
        watch->lost += take_word(&reader);
        break;
    case PERF_RECORD_LOST_SAMPLES:
        watch->lost += take_word(&reader);
        break;
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
        if (sink->code_mapped != NULL && (header->misc & PERF_RECORD_MISC_MMAP_DATA) == 0) {
            sink->code_mapped(sink->context);
        }
        break;
    default: /* throttling and records of newer kernels */
        break;
    }
}

static void drain_ring(struct ag_perf_watch *watch, struct ring *ring,
                       const struct ag_perf_sink *sink) {
    const uint8_t *data = (const uint8_t *)ring->head + PAGE_BYTES;
    /* acquire: the records before data_head are written */
    const uint64_t head = __atomic_load_n(&ring->head->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = ring->head->data_tail;
    while (tail < head) {
        struct perf_event_header header;
        const size_t at = tail & (ring->n_bytes - 1), left = ring->n_bytes - at;
        /* records are aligned to 8 bytes, so a header is never split */
        memcpy(&header, data + at, sizeof header);
        if (header.size < sizeof header || header.size > head - tail) {
            /* a damaged record, which should not happen; what follows it cannot be read */
            tail = head;
            break;
        }
        const uint8_t *record = data + at;
        if (header.size > left) {
            memcpy(watch->record, data + at, left);
            memcpy(watch->record + left, data, header.size - left);
            record = watch->record;
        }
        read_record(watch, sink, &header, record + sizeof header);
        tail += header.size;
        /* release: what was read may be overwritten */
        __atomic_store_n(&ring->head->data_tail, tail, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&ring->head->data_tail, tail, __ATOMIC_RELEASE);
}

void ag_perf_watch_drain(struct ag_perf_watch *watch, const struct ag_perf_sink *sink) {
    for (size_t i = 0; i < watch->n_cpus; i++) {
        if (watch->rings[i].head != NULL) {
            drain_ring(watch, &watch->rings[i], sink);
        }
    }
}

uint64_t ag_perf_watch_lost(const struct ag_perf_watch *watch) {
    return watch->lost;
}

bool ag_perf_watch_sees_kernel(const struct ag_perf_watch *watch) {
    return !watch->excludes_kernel;
}
