/* nested_calls.c [ROUNDS]: calls an allocator whose functions call each other (nested_malloc.c).
 * Each round allocates 5 blocks with a total of 630 bytes, and frees them:
 *
 *     calloc 3 * 20; realloc of NULL to 40 and of that block to 400; posix_memalign of 100; the 30
 *     bytes that a function of the allocator's library allocates for a copy of a text
 *
 * Without ROUNDS it runs 100 rounds, and a signal handler allocates 200 bytes in each calloc. It
 * prints the sums of the rounds: a name, blocks, bytes, freed blocks, freed bytes. */
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
