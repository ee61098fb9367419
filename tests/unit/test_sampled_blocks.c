/* test_sampled_blocks.c: the set of sampled blocks is empty at the start of each recording, also if
 * a sandbox refuses madvise. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "record/sampled_blocks.h"

enum { N_BLOCKS = 20000, BLOCK_BYTES = 48, FIRST_BLOCK = 0x10000, NO_FILTERS = 77 };

/* Whether the set contains exactly the blocks that are inserted here. */
static bool takes_all(void) {
    bool has_taken = true;
    for (uintptr_t n = 0; n < N_BLOCKS; n++) {
        const uintptr_t address = FIRST_BLOCK + n * BLOCK_BYTES;
        has_taken &= !ag_sampled_blocks_has(address) && ag_sampled_blocks_insert(address) &&
                     ag_sampled_blocks_has(address);
    }
    return has_taken;
}

static bool refuse_madvise(void) {
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(lines) / sizeof(lines[0]), .filter = lines};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void a_new_recording_begins_without_blocks(void **state) {
    (void)state;
    for (int recording = 0; recording < 3; recording++) {
        assert_true(ag_sampled_blocks_prepare());
        assert_true(takes_all());
    }
}

static void so_it_does_in_a_sandbox(void **state) {
    (void)state;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!refuse_madvise()) {
            _exit(NO_FILTERS);
        }
        _exit(ag_sampled_blocks_prepare() && takes_all() ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTERS) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_recording_begins_without_blocks),
        cmocka_unit_test(so_it_does_in_a_sandbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
