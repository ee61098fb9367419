/* test_seccomp_filter.c: whether seccomp filters permit a system call, according to allogram,
 * compared with the kernel.
 *
 * A process installs a random program as its filter, and calls getppid, which ignores arguments,
 * with random arguments. If allogram says that the program permits the call, the kernel must permit
 * each of these calls. If the program does not depend on arguments, both must agree. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "attach/seccomp_filter.h"

enum { PROGRAMS = 300, CALLS = 40, MOST = 24 };
#define REFUSED (SECCOMP_RET_ERRNO | 77)

static uint32_t state_of_random = 20;

static uint32_t random_below(uint32_t n) {
    state_of_random = state_of_random * 1664525 + 1013904223;
    return (state_of_random >> 8) % n;
}

/* Numbers that comparisons are likely to meet. */
static uint32_t random_number(void) {
    static const uint32_t likely[] = {0, 1, 7, SYS_getppid, AUDIT_ARCH_X86_64, UINT32_MAX};
    return likely[random_below(sizeof likely / sizeof likely[0])];
}

static struct sock_filter random_instruction(size_t left, bool uses_arguments) {
    static const uint16_t arithmetic[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_AND, BPF_OR, BPF_XOR};
    static const uint16_t jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
    const uint16_t source = random_below(3) == 0 ? BPF_X : BPF_K;
    switch (random_below(8)) {
    case 0:
        return (struct sock_filter)BPF_STMT(
            BPF_LD | BPF_W | BPF_ABS, uses_arguments ? 4 * random_below(16) : 4 * random_below(2));
    case 1:
        return (struct sock_filter)BPF_STMT(BPF_LD | BPF_MEM, random_below(4));
    case 2:
        return (struct sock_filter)BPF_STMT(random_below(2) ? BPF_ST : BPF_STX, random_below(4));
    case 3:
        return (struct sock_filter)BPF_STMT(BPF_MISC | (random_below(2) ? BPF_TAX : BPF_TXA), 0);
    case 4:
        return (struct sock_filter)BPF_STMT(BPF_ALU | source | arithmetic[random_below(6)],
                                            random_number());
    case 5:
        return (struct sock_filter)BPF_STMT(BPF_ALU | BPF_K | (random_below(2) ? BPF_LSH : BPF_RSH),
                                            random_below(32));
    default:
        return (struct sock_filter)BPF_JUMP(BPF_JMP | source | jumps[random_below(4)],
                                            random_number(), (uint8_t)random_below((uint32_t)left),
                                            (uint8_t)random_below((uint32_t)left));
    }
}

/* Programs begin with the number in the accumulator, and store it, because the kernel refuses
 * programs that read memory before they write to it. The end has both results, so that jumps reach
 * them. */
static size_t random_program(struct sock_filter program[MOST + 8], bool uses_arguments) {
    size_t n = 0;
    program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (uint32_t i = 0; i < 4; i++) {
        program[n++] = (struct sock_filter)BPF_STMT(BPF_ST, i);
    }
    const size_t end = n + 1 + random_below(MOST - 1);
    while (n < end) {
        program[n] = random_instruction(end - n + 1, uses_arguments);
        n++;
    }
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, REFUSED);
    return n;
}

struct verdict {
    volatile int n_made, n_permitted, is_installed;
};

/* Returns false if the kernel does not accept the program. */
static bool kernel_says(struct sock_filter *program, size_t n, struct verdict *verdict) {
    const struct sock_fprog installed = {.len = (unsigned short)n, .filter = program};
    *verdict = (struct verdict){0};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* makes no other calls, because the filter may refuse them */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
            verdict->is_installed =
                syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &installed) == 0 ? 1 : -1;
        }
        for (int i = 0; i < CALLS; i++) {
            const long r = syscall(SYS_getppid, random_number(), random_number(), random_number(),
                                   random_number(), random_number(), random_number());
            verdict->n_permitted += r > 0;
            verdict->n_made++;
        }
        for (;;) {
        }
    }
    while (verdict->n_made < CALLS && waitpid(child, NULL, WNOHANG) == 0) {
        (void)usleep(20);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    return verdict->is_installed == 1;
}

static void random_programs_are_judged_as_by_the_kernel(void **state) {
    (void)state;
    struct verdict *verdict =
        mmap(NULL, sizeof *verdict, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(verdict != MAP_FAILED);
    int n_permitted = 0, n_refused = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        struct sock_filter program[MOST + 8];
        const bool uses_arguments = i % 2 == 0;
        const size_t n = random_program(program, uses_arguments);
        const bool permits = ag_seccomp_program_permits(program, n, SYS_getppid);
        if (!kernel_says(program, n, verdict)) {
            if (i == 0) {
                skip(); /* the kernel has no seccomp filters */
            }
            fail_msg("the kernel refuses program %d", i);
        }
        assert_int_equal(verdict->n_made, CALLS);
        n_permitted += permits;
        n_refused += !permits;
        if (permits) {
            assert_int_equal(verdict->n_permitted, CALLS);
        } else if (!uses_arguments) {
            assert_int_equal(verdict->n_permitted, 0);
        }
    }
    assert_true(n_permitted > PROGRAMS / 8);
    assert_true(n_refused > PROGRAMS / 8);
    (void)munmap(verdict, sizeof *verdict);
}

static void actions_other_than_a_permission_refuse(void **state) {
    (void)state;
    static const uint32_t actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
                                       SECCOMP_RET_TRAP,         SECCOMP_RET_ERRNO | EPERM,
                                       SECCOMP_RET_USER_NOTIF,   SECCOMP_RET_TRACE};
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        const struct sock_filter program[] = {BPF_STMT(BPF_RET | BPF_K, actions[i])};
        assert_false(ag_seccomp_program_permits(program, 1, SYS_getppid));
    }
    const struct sock_filter logs[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_LOG)};
    assert_true(ag_seccomp_program_permits(logs, 1, SYS_getppid));
}

/* 2^N ways lead to the end; the search gives up. */
static void the_effort_is_limited(void **state) {
    (void)state;
    enum { JUMPS = 2000 };
    struct sock_filter *program = calloc(2 * JUMPS + 1, sizeof *program);
    assert_non_null(program);
    size_t n = 0;
    for (int i = 0; i < JUMPS; i++) {
        program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                    offsetof(struct seccomp_data, args));
        program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
    }
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    assert_false(ag_seccomp_program_permits(program, n, SYS_getppid));
    free(program);
}

static void programs_that_do_not_end_refuse(void **state) {
    (void)state;
    const struct sock_filter falls_out[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    const struct sock_filter jumps_out[] = {BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX)};
    assert_false(ag_seccomp_program_permits(falls_out, 1, SYS_getppid));
    assert_false(ag_seccomp_program_permits(jumps_out, 1, SYS_getppid));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_are_judged_as_by_the_kernel),
        cmocka_unit_test(actions_other_than_a_permission_refuse),
        cmocka_unit_test(the_effort_is_limited),
        cmocka_unit_test(programs_that_do_not_end_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
