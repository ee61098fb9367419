/* own_gaps.c: a program that measures the gaps in its execution. It reads the clock again and
 * again, for as many seconds as its argument says. It prints, as JSON, the time of the short gaps
 * (1 us to 1 ms, as interrupts cause them), in total and for three ranges of lengths, and the time
 * without gaps. */
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
    uint64_t by_length_ns[3] = {0}; /* gaps of 1 to 10 us, 10 to 100 us, 100 us to 1 ms */
    puts("ready");
    fflush(stdout);
    const uint64_t start_ns = now_ns();
    for (uint64_t last_ns = start_ns; last_ns - start_ns < (uint64_t)(seconds * 1e9);) {
        const uint64_t next_ns = now_ns(), gap_ns = next_ns - last_ns;
        away_ns +=
            gap_ns > SHORT_NS && gap_ns <= INTERRUPT_NS ? gap_ns : 0; /* in a longer gap, another
                                                                       * process ran */
        if (gap_ns > SHORT_NS && gap_ns <= INTERRUPT_NS) {
            by_length_ns[gap_ns <= 10 * 1000 ? 0 : gap_ns <= 100 * 1000 ? 1 : 2] += gap_ns;
        }
        present_ns += gap_ns <= SHORT_NS ? gap_ns : 0;
        last_ns = next_ns;
    }
    printf("{\"away_ns\": %llu, \"present_ns\": %llu, \"by_length_ns\": [%llu, %llu, %llu]}\n",
           (unsigned long long)away_ns, (unsigned long long)present_ns,
           (unsigned long long)by_length_ns[0], (unsigned long long)by_length_ns[1],
           (unsigned long long)by_length_ns[2]);
    return 0;
}
