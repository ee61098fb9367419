/* sample_cost.c: measures on this machine what a sample, and what a record of a page fault, costs
 * the thread that it interrupts.
 *
 * The cost is not part of the CPU time of the observed process, because it occurs in the kernel's
 * interrupt. So this thread samples itself with the same kind of event, and reads the clock without
 * a pause. A gap between two readings that contains the time of a sample is the cost of that
 * sample. The median of some dozen such gaps is used, since other interrupts and the scheduler
 * cause gaps, too. The result is about 20 us in a virtual machine and 2 us on bare metal.
 *
 * The measured samples copy as much of the stack as those of the observation, so the ring has room
 * for only 15 of them. Nothing can empty the ring while the clock is read without a pause. So there
 * are several short measurements, each with an event and a ring of its own. */
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "observation_state.h"

enum {
    PAGE_BYTES = 4096,
    RING_PAGES = 64,
    RATE = 4000,
    MEASUREMENTS = 8,
    MEASURED_NS = 3000000, /* a measurement: 12 samples */
    MOST_GAPS = 4096,
    LEAST_GAP_NS = 600, /* reading the clock takes 20 to 60 ns */
    MOST_GAP_NS = 1000000,
};
struct gap {
    uint64_t from_ns, to_ns;
};

struct event {
    int fd;                            /* -1: none */
    struct perf_event_mmap_page *ring; /* NULL: none */
};
static const size_t ring_bytes = (size_t)(RING_PAGES + 1) * PAGE_BYTES;

static struct event open_event(uint64_t config, uint64_t rate, uint32_t stack_bytes) {
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = config,
        .freq = rate != 0,
        /* rate 0: sets sample_period, which is the same field, to 1 */
        .sample_freq = rate != 0 ? rate : 1,
        .sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .sample_regs_user = UINT64_C(0xff01ff),
        .sample_stack_user = stack_bytes,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
    const int fd =
        (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, (unsigned long)PERF_FLAG_FD_CLOEXEC);
    void *ring =
        fd >= 0 ? mmap(NULL, ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    return (struct event){fd, ring != MAP_FAILED ? ring : NULL};
}

static void close_event(const struct event *event) {
    if (event->ring != NULL) {
        munmap(event->ring, ring_bytes);
    }
    if (event->fd >= 0) {
        close(event->fd);
    }
}

static size_t watch_gaps(struct gap *gaps) {
    const uint64_t start_ns = ag_monotonic_ns();
    uint64_t last_ns = start_ns;
    size_t n = 0;
    while (last_ns - start_ns < MEASURED_NS && n < MOST_GAPS) {
        const uint64_t now_ns = ag_monotonic_ns();
        if (now_ns - last_ns > LEAST_GAP_NS) {
            gaps[n++] = (struct gap){last_ns, now_ns};
        }
        last_ns = now_ns;
    }
    return n;
}

static int by_cost(const void *a, const void *b) {
    const double *first = a, *second = b;
    return *first < *second ? -1 : *first > *second;
}

/* Finds the samples in the ring whose time lies in a gap. Returns their number, and the gaps'
 * lengths. */
static size_t match_samples_to_gaps(const struct perf_event_mmap_page *head, const struct gap *gaps,
                                    size_t n_gaps, double *ret_costs) {
    const uint8_t *data = (const uint8_t *)head + PAGE_BYTES;
    const uint64_t end = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE);
    const uint64_t capacity = (uint64_t)RING_PAGES * PAGE_BYTES;
    size_t n = 0, gap = 0;
    for (uint64_t at = 0; at < end && end <= capacity && n < MOST_GAPS;) {
        struct perf_event_header header;
        uint64_t time_ns;
        memcpy(&header, data + at, sizeof header);
        memcpy(&time_ns, data + at + sizeof header, sizeof time_ns);
        if (header.size < sizeof header || header.size > end - at) {
            break;
        }
        while (gap < n_gaps && gaps[gap].to_ns < time_ns) {
            gap++;
        }
        if (header.type == PERF_RECORD_SAMPLE && gap < n_gaps && gaps[gap].from_ns <= time_ns &&
            gaps[gap].to_ns - gaps[gap].from_ns < MOST_GAP_NS) {
            ret_costs[n++] = (double)(gaps[gap].to_ns - gaps[gap].from_ns);
        }
        at += header.size;
    }
    return n;
}

/* Makes one measurement. Returns the number of samples, and their costs. */
static size_t measure_samples(uint32_t stack_bytes, struct gap *gaps, double *ret_costs) {
    const struct event event = open_event(PERF_COUNT_SW_CPU_CLOCK, RATE, stack_bytes);
    size_t n = 0;
    if (event.ring != NULL) {
        const size_t n_gaps = watch_gaps(gaps);
        /* an error is harmless: the event is closed next */
        (void)ioctl(event.fd, PERF_EVENT_IOC_DISABLE, 0);
        n = match_samples_to_gaps(event.ring, gaps, n_gaps, ret_costs);
    }
    close_event(&event);
    return n;
}

double ag_sample_cost_measure(uint32_t stack_bytes) {
    struct gap *gaps = calloc(MOST_GAPS, sizeof *gaps);
    double *costs = calloc(MEASUREMENTS * MOST_GAPS, sizeof *costs);
    size_t n = 0;
    for (int i = 0; i < MEASUREMENTS && gaps != NULL && costs != NULL; i++) {
        n += measure_samples(stack_bytes, gaps, costs + n);
    }
    if (n != 0) {
        qsort(costs, n, sizeof *costs, by_cost);
    }
    const double cost_ns = n != 0 ? costs[n / 2] : 0;
    free(gaps);
    free(costs);
    return cost_ns;
}

/* ---- page faults ------------------------------------------------------------------------ */
enum {
    TOUCHED_PAGES = 40, /* these events copy less of the stack than CPU samples: 40 fit into the
                         * ring */
    ROUNDS = 16
};

/* Measures ROUNDS times how long writing to new pages takes. Returns the shortest time per page, in
 * ns. RING, if it is not NULL, is emptied after each measurement. */
static double touch_ns(struct perf_event_mmap_page *ring) {
    const size_t n_bytes = (size_t)TOUCHED_PAGES * PAGE_BYTES;
    double least_ns = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        volatile uint8_t *pages =
            mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) {
            return 0;
        }
        /* so that each page causes a fault */
        (void)madvise((void *)pages, n_bytes, MADV_NOHUGEPAGE);
        const uint64_t start_ns = ag_monotonic_ns();
        for (size_t page = 0; page < TOUCHED_PAGES; page++) {
            pages[page * PAGE_BYTES] = 1;
        }
        const double spent_ns = (double)(ag_monotonic_ns() - start_ns) / TOUCHED_PAGES;
        least_ns = spent_ns < least_ns ? spent_ns : least_ns;
        munmap((void *)pages, n_bytes);
        if (ring != NULL) {
            __atomic_store_n(&ring->data_tail, ring->data_head, __ATOMIC_RELEASE);
        }
    }
    return least_ns;
}

double ag_record_cost_measure(uint32_t stack_bytes) {
    const double alone_ns = touch_ns(NULL);
    const struct event event = open_event(PERF_COUNT_SW_PAGE_FAULTS, /* rate= */ 0, stack_bytes);
    const double observed_ns = event.ring != NULL ? touch_ns(event.ring) : alone_ns;
    close_event(&event);
    return observed_ns > alone_ns ? observed_ns - alone_ns : 0;
}
