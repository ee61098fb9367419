/* micro_ledger.c: measures how many events per second one core applies to the ledger, the table of
 * live blocks and sums (src/ledger/), for developers who change it. The simulated events resemble
 * those of real programs.
 *
 *     micro_ledger [SECONDS_EACH=1]
 *
 *     cfrac      300 stacks, 500 blocks alive, most freed young          target 100 M events/s
 *     espresso   230,000 stacks, 50,000 blocks alive                     target  60 M events/s
 *     threads    cfrac by 8 threads, whose events are first merged into one order (src/ledger/
 *                merge.h). Each thread has a time stamp after every 64 events.
 *
 * The result is the CPU time of the fastest round. The events are created before the clock starts.
 * At the end of a round no block is live, so that the round can be repeated. The sums are checked
 * at the end, so that a ledger which loses events cannot appear fast. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ledger/ledger.h"
#include "ledger/merge.h"
#include "random_word.h"

struct shape {
    const char *name;
    /* n_alive: the most live blocks of a stream at a time; n_events: of all streams together */
    uint32_t n_stacks, n_alive, n_events, n_streams;
};

struct program { /* the events of one thread, and its live blocks */
    struct ag_event *events;
    size_t n_events;
    uint64_t *alive;
    size_t n_alive;
};

static uint64_t random_below(uint64_t n) {
    return (random_word() >> 11) % n;
}

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void add_alloc(struct program *program, uint64_t address, uint32_t n_stacks) {
    /* a few stacks make most of the allocations, because the logarithm of the stack's number is
     * uniform; the ids are scattered over the slots of the stack tree */
    const double u = (double)random_below(1 << 30) / (1 << 30);
    const uint32_t stack = (uint32_t)((uint64_t)pow(n_stacks, u) * 2654435761u % 1400000);
    program->alive[program->n_alive++] = address;
    program->events[program->n_events++] = (struct ag_event){.kind = AG_RECORD_ALLOC,
                                                             .address = address,
                                                             .size = 8 + random_below(120),
                                                             .stack = stack + 16};
}

/* Frees one of the newest blocks in three of four cases, else any block. Returns the address, which
 * the caller may use again. */
static uint64_t add_free(struct program *program) {
    const size_t reach = random_below(4) ? 4 : program->n_alive;
    const size_t at =
        program->n_alive - 1 - random_below(reach < program->n_alive ? reach : program->n_alive);
    const uint64_t address = program->alive[at];
    program->alive[at] = program->alive[--program->n_alive];
    program->events[program->n_events++] =
        (struct ag_event){.kind = AG_RECORD_FREE, .address = address};
    return address;
}

static void make_program(struct program *program, const struct shape *shape,
                         uint64_t first_address) {
    const size_t n = shape->n_events / shape->n_streams;
    program->events = calloc(n + n / 32 + shape->n_alive + 128, sizeof(*program->events));
    program->alive = calloc(shape->n_alive + 1, sizeof(*program->alive));
    uint64_t *reusable = calloc(shape->n_alive + 1, sizeof(*reusable));
    size_t n_reusable = 0;
    uint64_t fresh = first_address, time_ns = 1;
    while (program->n_events < n) {
        if (program->n_events % 65 == 0) {
            program->events[program->n_events++] = (struct ag_event){
                .kind = AG_RECORD_STAMP, .size = time_ns += 2000 + random_below(1000)};
        } else if (program->n_alive < shape->n_alive && (program->n_alive < 2 || random_below(2))) {
            fresh += n_reusable ? 0 : 48;
            add_alloc(program, n_reusable ? reusable[--n_reusable] : fresh, shape->n_stacks);
        } else {
            reusable[n_reusable++] = add_free(program);
        }
    }
    while (program->n_alive > 0) {
        add_free(program);
    }
    free(reusable);
}

static void feed_merge(struct ag_merge *merge, const struct program *programs, uint32_t n_streams) {
    const size_t piece = 65 * 16;
    for (size_t at = 0, is_left = 1; is_left; at += piece) {
        is_left = 0;
        uint64_t reached_ns = UINT64_MAX;
        for (uint32_t k = 0; k < n_streams; k++) {
            const struct program *program = &programs[k];
            if (at >= program->n_events) {
                continue;
            }
            const size_t n = program->n_events - at < piece ? program->n_events - at : piece;
            ag_merge_add(merge, k, program->events + at, n);
            reached_ns =
                program->events[at].size < reached_ns ? program->events[at].size : reached_ns;
            is_left = 1;
        }
        ag_merge_advance(merge, is_left ? reached_ns : UINT64_MAX - 1);
    }
    ag_merge_advance(merge, UINT64_MAX - 1);
}

static int measure(const struct shape *shape, double seconds) {
    struct program programs[8] = {0};
    for (uint32_t k = 0; k < shape->n_streams; k++) {
        make_program(&programs[k], shape, 0x555500000000u + ((uint64_t)k << 36));
    }
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    uint64_t rounds = 0, events = 0;
    for (uint32_t k = 0; k < shape->n_streams; k++) {
        events += programs[k].n_events;
    }
    double best_s = 1e9;
    for (const double start = cpu_s(); cpu_s() - start < seconds; rounds++) {
        const double before = cpu_s();
        if (shape->n_streams == 1) {
            ag_ledger_apply(ledger, 0, programs[0].events, programs[0].n_events);
        } else {
            feed_merge(merge, programs, shape->n_streams);
        }
        const double took_s = cpu_s() - before;
        best_s = took_s < best_s ? took_s : best_s;
    }
    const int r = ag_ledger_close(ledger);
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    const struct ag_stack_sum *sums;
    printf("%-10s %7.1f M events/s   %6.2f ns/event   %zu stacks, %llu rounds\n", shape->name,
           (double)events / best_s / 1e6, best_s * 1e9 / (double)events,
           ag_ledger_stack_sums(ledger, &sums), (unsigned long long)rounds);
    const int is_right = r == 0 && summary->allocated_blocks == summary->freed_blocks &&
                         summary->in_use_bytes == 0 && summary->ghost_frees == 0 &&
                         summary->order_repairs == 0;
    if (!is_right) {
        printf("%-10s the sums are wrong\n", shape->name);
    }
    ag_merge_free(merge);
    ag_ledger_free(ledger);
    for (uint32_t k = 0; k < shape->n_streams; k++) {
        free(programs[k].events);
        free(programs[k].alive);
    }
    return is_right ? 0 : 1;
}

int main(int argc, char **argv) {
    const struct shape shapes[] = {
        {.name = "cfrac", .n_stacks = 300, .n_alive = 500, .n_events = 16384, .n_streams = 1},
        {.name = "espresso",
         .n_stacks = 230000,
         .n_alive = 50000,
         .n_events = 4000000,
         .n_streams = 1},
        {.name = "threads", .n_stacks = 300, .n_alive = 500, .n_events = 131072, .n_streams = 8},
    };
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    int r = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        r |= measure(&shapes[i], seconds);
    }
    return r;
}
