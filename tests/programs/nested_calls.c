/* nested_calls.c: nested_calls [ROUNDS]: what goes through an allocator whose functions call each
 * other (nested_malloc.c). Each round 5 blocks of 630 bytes, all freed:
 *
 *     calloc 3 * 20; realloc of nothing to 40 and of that to 400; posix_memalign of 100; a copy of
 *     30 that the allocator's library makes
 *
 * Without ROUNDS 100 of them, and a signal handler that allocates 200 bytes in each calloc.
 * Prints the sums of many: a name, blocks, bytes, freed blocks, freed bytes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

extern int nested_signal;
extern char *nested_copy(const char *text);

static void allocate(int signal) {
    (void)signal;
    free(malloc(200));
}

static void go_round(void) {
    free(calloc(3, 20));
    free(realloc(realloc(NULL, 40), 400));
    void *aligned = NULL;
    if (posix_memalign(&aligned, 64, 100) != 0) {
        abort();
    }
    free(aligned);
    free(nested_copy("a text of thirty bytes so few"));
}

int main(int argc, char **argv) {
    const int n_rounds = argc > 1 ? atoi(argv[1]) : 100;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc == 1) {
        signal(SIGUSR1, allocate);
        nested_signal = SIGUSR1;
    }
    for (int i = 0; i < n_rounds; i++) {
        go_round();
    }
    printf("all %d %d %d %d\n", 5 * n_rounds, 630 * n_rounds, 5 * n_rounds, 630 * n_rounds);
    return 0;
}
