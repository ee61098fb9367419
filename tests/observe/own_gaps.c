/* own_gaps.c: a program that notices when it does not run: it reads the clock without a pause, for
 * as many seconds as its argument says, and prints what it saw as JSON: how long it was away in
 * short gaps (interrupts: 1 us to 1 ms). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv) {
    enum { SHORT_NS = 1000, INTERRUPT_NS = 1000000 };
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    uint64_t away_ns = 0, present_ns = 0;
    puts("ready");
    fflush(stdout);
    const uint64_t start_ns = now_ns();
    for (uint64_t last_ns = start_ns; last_ns - start_ns < (uint64_t)(seconds * 1e9);) {
        const uint64_t next_ns = now_ns(), gap_ns = next_ns - last_ns;
        away_ns +=
            gap_ns > SHORT_NS && gap_ns <= INTERRUPT_NS ? gap_ns : 0; /* else: scheduled out */
        present_ns += gap_ns <= SHORT_NS ? gap_ns : 0;
        last_ns = next_ns;
    }
    printf("{\"away_ns\": %llu, \"present_ns\": %llu}\n", (unsigned long long)away_ns,
           (unsigned long long)present_ns);
    return 0;
}
