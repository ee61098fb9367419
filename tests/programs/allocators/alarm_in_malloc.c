/* alarm_in_malloc.c: a timer's SIGALRM every 100 us interrupts a loop of malloc and free at any
 * instruction, also inside the allocator and inside a preloaded library. The handler allocates two
 * blocks of 48 bytes at a depth of 5 frames and frees one of them; with the argument "altstack" the
 * handler runs on an alternate stack. The program needs an allocator that signal handlers may call
 * (signal_safe_malloc.c). The loop allocates and frees 200000 blocks of 16 bytes, and more until
 * 2000 signals have arrived. The program counts its own calls and those of the handler, and writes
 * the counts at its end.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @counts_itself    allocated_blocks allocated_bytes freed_blocks in_use_blocks in_use_bytes
 * @ghost_frees      0
 * @threads          1
 * @varies           peak_bytes peak_blocks temporary_blocks allocated_blocks allocated_bytes
 * @varies           freed_blocks freed_bytes in_use_blocks in_use_bytes
 */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "../say.h"

static volatile sig_atomic_t n_signals;

__attribute__((noinline, noclone)) static void allocate_below(int depth) {
    if (depth > 0) {
        allocate_below(depth - 1);
        __asm__ volatile("");
        return;
    }
    void *kept = malloc(48), *gone = malloc(48);
    OPAQUE(kept);
    OPAQUE(gone);
    free(gone);
}

static void on_alarm(int signal) {
    (void)signal;
    n_signals++;
    allocate_below(5);
}

int main(int n_arguments, char **arguments) {
    static char other_stack[64 * 1024];
    int alternate = n_arguments > 1 && strcmp(arguments[1], "altstack") == 0;
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction action = {.sa_handler = on_alarm,
                               .sa_flags = SA_RESTART | (alternate ? SA_ONSTACK : 0)};
    struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    if (alternate) {
        sigaltstack(&stack, NULL);
    }
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    unsigned long n = 0;
    for (; n < 200000 || n_signals < 2000; n++) {
        void *block = malloc(16);
        OPAQUE(block);
        free(block);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigset_t alarm_only; /* SIGALRM is blocked before the counts are read, so that no late signal
                          * changes them. */
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm_only, NULL);

    unsigned long signals = (unsigned long)n_signals;
    tell_truth("allocated_blocks", n + 2 * signals);
    tell_truth("allocated_bytes", n * 16 + 96 * signals);
    tell_truth("freed_blocks", n + signals);
    tell_truth("in_use_blocks", signals);
    tell_truth("in_use_bytes", 48 * signals);
    say("enough signals\n");
    return 0;
}
