/* stepped.c: runs some calls with the CPU's trap flag set, so that SIGTRAP comes after every single
 * instruction of the program, its libraries and the agent (the recorder's library). The handler
 * allocates a block of a size that only handlers use and frees it, or leaves by siglongjmp, or
 * forks. So one run shows for each instruction whether an interruption there breaks the recorder.
 *
 *     stepped WHAT HOW [STRIDE [FIRST]]
 *
 * WHAT names the calls, see `acts`. HOW:
 *     return    at each STRIDE-th instruction the handler allocates and returns
 *     altstack  as return, on an alternate stack
 *     twice     the handler allocates at each instruction; at each STRIDE-th, it single-steps its
 *               own calls as well
 *     jump      for each STRIDE-th instruction, from the FIRST on, a new thread allocates, and then
 *               makes the calls up to that instruction. The handler leaves the instruction by
 *               siglongjmp, and the thread allocates again
 *     coldjump  as jump, in a thread that has not allocated before
 *     fork      at each STRIDE-th instruction the handler forks by a raw system call, at most
 *               FORKS_EACH times at the same instruction; the child then continues without stops
 *               to the end of the act and exits, and after that the parent continues
 *
 * If the environment variable WITHIN contains the value of the symbol of a function of the agent,
 * in hexadecimal, the handler counts and acts only at instructions of that function and of its
 * callees. The program prints which blocks must be recorded: "SIZE COUNT", or "FIRST-LAST" for one
 * block of each size from FIRST to LAST. If the environment variable PLACES names a file, the
 * program writes into it the address of each instruction at which a handler allocated, and then the
 * process's mappings.
 *
 * The allocator is stepped_allocator.c, in the program or in a library. A handler may call it even
 * if the handler interrupted it. A handler may also have interrupted a function of the C library
 * that must not be called again in a handler, so handlers call nothing but the allocator. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "../single_step.h"

enum { FIRST_STEP = 20000, FIRST_INNER = 4000000, AFTER_JUMP = 8000000, STEPS_MOST = 300000 };
enum { PLAIN_ROUNDS = 2600, STEPPED_ROUNDS = 140, CHILD_STATUS = 7, FORKS_EACH = 2 };

static volatile sig_atomic_t n_steps, n_used, n_inner, depth, is_child, n_forks, n_bad_children;
static volatile long stride = 1, first, jump_at;
static bool is_twice, is_cold, is_fork;
static uintptr_t within; /* address of the function of WITHIN; 0: all instructions are counted */
static sigjmp_buf place;
static uintptr_t *places;

__attribute__((noinline)) static void use(size_t bytes) {
    void *volatile block = malloc(bytes);
    free(block);
}

static void allocate_in_handler(const ucontext_t *interrupted) {
    const long n = n_used;
    n_used = n + 1;
    places[n] = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP];
    use(FIRST_STEP + (size_t)n);
}

/* Whether the interrupted instruction is inside the function at `within` or one of its callees.
 * Called at each instruction. */
static bool is_within(const ucontext_t *interrupted) {
    static uintptr_t entry_sp; /* the stack pointer at the function's entry; 0: outside */
    const uintptr_t sp = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RSP];
    if (within != 0 && (uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP] == within) {
        entry_sp = sp;
    } else if (sp > entry_sp) {
        entry_sp = 0;
    }
    return within == 0 || entry_sp != 0;
}

/* Whether the handler has forked FORKS_EACH times at this instruction. Parent and child share the
 * memory that the recorder writes to. If the child takes a part of this memory that the parent is
 * about to take, the parent's compare-and-swap fails, and the parent repeats the instructions
 * before the compare-and-swap. Without a limit the parent would fork in each repetition, and never
 * finish. */
static bool has_forked_here(uintptr_t instruction) {
    int n = 0;
    for (long i = 0; i < n_forks && n < FORKS_EACH; i++) {
        n += places[i] == instruction;
    }
    return n == FORKS_EACH;
}

static void fork_here(ucontext_t *interrupted) {
    const uintptr_t instruction = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP];
    if (has_forked_here(instruction)) {
        return;
    }
    places[n_forks] = instruction;
    n_forks = n_forks + 1;
    const pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        is_child = 1;
        interrupted->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    n_bad_children += !WIFEXITED(status) || WEXITSTATUS(status) != CHILD_STATUS;
}

/* The child allocates a block at its end, because a child that records no event has no trace, and
 * the interrupted call of malloc or free may be the child's last one. */
static void end_child(void) {
    if (is_child) {
        use(8);
        _exit(CHILD_STATUS);
    }
}

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    const int saved = errno;
    ucontext_t *interrupted = context;
    if (sigismember(&interrupted->uc_sigmask, SIGALRM)) {
        return; /* all signals are blocked here, so no handler of a real program could run after
                 * this instruction */
    }
    if (!is_within(interrupted)) {
        return;
    }
    if (depth > 0) {
        use(FIRST_INNER + (size_t)n_inner);
        n_inner = n_inner + 1;
        errno = saved;
        return;
    }
    const long n = n_steps;
    n_steps = n + 1;
    if (jump_at >= 0) {
        if (n == jump_at) {
            siglongjmp(place, 1);
        }
        return;
    }
    if (n >= STEPS_MOST) {
        _exit(5); /* too many instructions: the interrupted calls seem to run forever */
    }
    const bool is_due = n % stride == 0;
    if (is_fork) {
        if (is_due) {
            fork_here(interrupted);
        }
    } else if (is_twice && is_due) {
        depth = 1;
        step();
        allocate_in_handler(interrupted);
        step_no_more();
        depth = 0;
    } else if (is_twice || is_due) {
        allocate_in_handler(interrupted);
    }
    errno = saved;
}

/* ---- acts ---- */

static void *volatile blocks[8];

static void act_malloc(void) {
    blocks[0] = malloc(1000);
    free(blocks[0]);
}

static void act_family(void) {
    void *aligned = NULL;
    blocks[0] = calloc(1, 1001);
    blocks[0] = realloc(blocks[0], 1002);
    blocks[1] = realloc(NULL, 1003);
    if (posix_memalign(&aligned, 64, 1004) == 0) {
        blocks[2] = aligned;
    }
    free(blocks[0]);
    free(blocks[1]);
    free(blocks[2]);
    free(NULL);
}

/* operator new and delete, in C */
extern void *_Znwm(size_t bytes);
extern void _ZdlPv(void *block);

static void act_operators(void) {
    blocks[0] = _Znwm(1006);
    _ZdlPv(blocks[0]);
}

static void act_mappings(void) {
    char *mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[0] = 1;
    mapped = mremap(mapped, 8192, 16384, MREMAP_MAYMOVE);
    munmap(mapped, 16384);
    blocks[0] = malloc(1005);
    free(blocks[0]);
}

static void run_rounds(int n) {
    for (int i = 0; i < n; i++) {
        blocks[0] = malloc(1007);
        free(blocks[0]);
        end_child();
    }
}

/* A new thread's chunk (the buffer that it writes events to) has 8192 words. It is full after 2730
 * rounds of 3 words, or earlier, because a time stamp is also written every millisecond. */
static void *fill_chunk(void *argument) {
    (void)argument;
    run_rounds(PLAIN_ROUNDS);
    step();
    run_rounds(STEPPED_ROUNDS);
    step_no_more();
    return NULL;
}

static void act_rounds(void) {
    pthread_t thread;
    step_no_more();
    if (pthread_create(&thread, NULL, fill_chunk, NULL) == 0) {
        pthread_join(thread, NULL);
    }
    step();
}

/* defined only if the program is linked with stepped_lua.c */
__attribute__((weak)) extern void prepare_lua(void);
__attribute__((weak)) extern void act_lua(void);

static const struct act {
    const char *name;
    void (*run)(void);
    int first, last, each; /* sizes of the act's own blocks, and how many of each size */
} acts[] = {
    {"malloc", act_malloc, 1000, 1000, 1},
    {"family", act_family, 1001, 1004, 1},
    {"mappings", act_mappings, 1005, 1005, 1},
    {"operators", act_operators, 1006, 1006, 1},
    {"rounds", act_rounds, 1007, 1007, PLAIN_ROUNDS + STEPPED_ROUNDS},
    {"lua", act_lua, 1, 0, 0}, /* no sizes are printed, because Lua decides the sizes of its
                                * blocks */
};

static const struct act *act;

/* ---- main ---- */

static void *jump_in_thread(void *argument) {
    (void)argument;
    if (!is_cold) {
        use(8);
    }
    if (sigsetjmp(place, 1) == 0) {
        step();
        act->run();
        step_no_more();
    }
    use(AFTER_JUMP + (size_t)jump_at);
    return NULL;
}

static long jump_everywhere(void) {
    for (long i = first;; i += stride) {
        pthread_t thread;
        jump_at = i;
        n_steps = 0;
        pthread_create(&thread, NULL, jump_in_thread, NULL);
        pthread_join(thread, NULL);
        if (n_steps <= i) {
            return i;
        }
    }
}

static int find_agent(struct dl_phdr_info *image, size_t bytes, void *agent) {
    (void)bytes;
    if (strstr(image->dlpi_name, "/liballogram-")) {
        *(uintptr_t *)agent = image->dlpi_addr;
        return 1;
    }
    return 0;
}

static int say(const char *format, long first, long last) {
    char text[80];
    const int bytes = snprintf(text, sizeof(text), format, first, last);
    return write(1, text, (size_t)bytes) == bytes ? 0 : 1;
}

int main(int n_arguments, char **arguments) {
    static char other_stack[64 * 1024];
    const char *how = n_arguments > 2 ? arguments[2] : "return";
    const bool is_altstack = strcmp(how, "altstack") == 0, is_jump = strstr(how, "jump") != NULL;
    stride = n_arguments > 3 ? atol(arguments[3]) : 1;
    first = n_arguments > 4 ? atol(arguments[4]) : 0;
    is_cold = strcmp(how, "coldjump") == 0;
    is_twice = strcmp(how, "twice") == 0;
    is_fork = strcmp(how, "fork") == 0;
    uintptr_t agent = 0;
    if (getenv("WITHIN") && dl_iterate_phdr(find_agent, &agent) == 1) {
        within = agent + strtoul(getenv("WITHIN"), NULL, 16);
    }
    jump_at = -1;
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        act = n_arguments > 1 && strcmp(arguments[1], acts[i].name) == 0 ? &acts[i] : act;
    }
    places = mmap(NULL, STEPS_MOST * sizeof(*places), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!act || !act->run || places == MAP_FAILED) {
        return 2;
    }
    const struct sigaction action = {.sa_sigaction = on_trap,
                                     .sa_flags =
                                         SA_SIGINFO | SA_NODEFER | (is_altstack ? SA_ONSTACK : 0)};
    const stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
    if (is_altstack) {
        sigaltstack(&stack, NULL);
    }
    sigaction(SIGTRAP, &action, NULL);
    use(8);
    if (prepare_lua) {
        prepare_lua();
    }
    if (is_jump) {
        const long last = jump_everywhere();
        for (long i = first; i <= last; i += stride) {
            say("%ld %ld\n", AFTER_JUMP + i, 1);
        }
        return 0;
    }
    for (int round = 0; round < 2; round++) {
        step();
        act->run();
        step_no_more();
        end_child();
    }
    if (n_bad_children > 0) {
        return 6;
    }
    for (int size = act->first; size <= act->last; size++) {
        say("%ld %ld\n", size, 2 * act->each);
    }
    if (n_used > 0) {
        say("%ld-%ld\n", FIRST_STEP, FIRST_STEP + n_used - 1);
    }
    if (n_inner > 0) {
        say("%ld-%ld\n", FIRST_INNER, FIRST_INNER + n_inner - 1);
    }
    if (getenv("PLACES")) {
        const int fd = open(getenv("PLACES"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        const ssize_t bytes = (ssize_t)((size_t)n_used * sizeof(*places));
        if (fd < 0 || write(fd, places, (size_t)bytes) != bytes) {
            return 2;
        }
        /* The process's mappings follow in the file. They show in which object each address
         * lies. */
        const int maps = open("/proc/self/maps", O_RDONLY);
        char text[4096];
        for (ssize_t n; (n = read(maps, text, sizeof(text))) > 0;) {
            if (write(fd, text, (size_t)n) != n) {
                return 2;
            }
        }
    }
    return 0;
}
