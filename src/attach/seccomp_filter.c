/* seccomp_filter.c: decides, for `attach`, whether the seccomp filters of a program permit the
 * system calls of the agent. Container engines install such filters by default. The kernel gives a
 * tracer the programs of the filters (PTRACE_SECCOMP_GET_FILTER), which are executed here for each
 * call of a list.
 *
 * The number of the call and the architecture are known; its arguments are not. So a value that
 * depends on an argument is unknown, and if a jump depends on an unknown value, both ways are
 * followed. The call is permitted if each way ends with ALLOW or LOG. Programs have no backward
 * jumps, so each way ends. The effort is limited: a call whose ways are too many counts as
 * refused. */
#include "seccomp_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/compiler.h"

enum {
    WAYS_MOST = 256,      /* ways that are not yet followed, at one moment */
    STEPS_MOST = 1 << 20, /* instructions for one call; a program has at most 4,096 */
    FILTERS_MOST = 64,
};

/* The calls of the agent (SECURITY.md lists those after its start), of the loader, and those by
 * which files are passed (passed_files.c). */
#define CALL(name) \
    { SYS_##name, #name }
static const struct {
    long number;
    const char *name;
} calls[] = {
    CALL(brk),        CALL(clock_gettime),  CALL(close),       CALL(fcntl),
    CALL(fstat),      CALL(futex),          CALL(getcwd),      CALL(getpid),
    CALL(getppid),    CALL(getrandom),      CALL(gettid),      CALL(lseek),
    CALL(madvise),    CALL(mmap),           CALL(mprotect),    CALL(mremap),
    CALL(munmap),     CALL(newfstatat),     CALL(open),        CALL(openat),
    CALL(prctl),      CALL(pread64),        CALL(read),        CALL(readlink),
    CALL(recvmsg),    CALL(rt_sigprocmask), CALL(sched_yield), CALL(sigaltstack),
    CALL(socketpair), CALL(stat),
};
#undef CALL

struct value {
    uint32_t number;
    bool is_known;
};

struct way {   /* the state of the machine that executes the program */
    size_t at; /* next instruction */
    struct value accumulator, index, memory[BPF_MEMWORDS];
};

static const struct value unknown;

static struct value known(uint32_t number) {
    return (struct value){number, true};
}

static struct value load(const struct way *way, const struct sock_filter *instruction, long call) {
    switch (BPF_MODE(instruction->code)) {
    case BPF_IMM:
        return known(instruction->k);
    case BPF_MEM:
        return instruction->k < BPF_MEMWORDS ? way->memory[instruction->k] : unknown;
    case BPF_LEN:
        return known(sizeof(struct seccomp_data));
    case BPF_ABS:
        return instruction->k == offsetof(struct seccomp_data, nr)     ? known((uint32_t)call)
               : instruction->k == offsetof(struct seccomp_data, arch) ? known(AUDIT_ARCH_X86_64)
                                                                       : unknown;
    default:
        return unknown;
    }
}

static struct value operand(const struct way *way, const struct sock_filter *instruction) {
    return BPF_SRC(instruction->code) == BPF_X ? way->index : known(instruction->k);
}

static struct value compute(const struct way *way, const struct sock_filter *instruction) {
    const struct value left = way->accumulator, right = operand(way, instruction);
    const uint32_t a = left.number, b = right.number;
    if (!left.is_known || (!right.is_known && BPF_OP(instruction->code) != BPF_NEG)) {
        return unknown;
    }
    switch (BPF_OP(instruction->code)) {
    case BPF_ADD:
        return known(a + b);
    case BPF_SUB:
        return known(a - b);
    case BPF_MUL:
        return known(a * b);
    case BPF_DIV:
        return b != 0 ? known(a / b) : unknown;
    case BPF_AND:
        return known(a & b);
    case BPF_OR:
        return known(a | b);
    case BPF_XOR:
        return known(a ^ b);
    case BPF_LSH:
        return b < 32 ? known(a << b) : unknown;
    case BPF_RSH:
        return b < 32 ? known(a >> b) : unknown;
    case BPF_NEG:
        return known(-a);
    default:
        return unknown;
    }
}

enum outcome { IS_FALSE, IS_TRUE, IS_OPEN };

static enum outcome compare(const struct way *way, const struct sock_filter *instruction) {
    const struct value left = way->accumulator, right = operand(way, instruction);
    const uint32_t a = left.number, b = right.number;
    if (!left.is_known || !right.is_known) {
        return IS_OPEN;
    }
    switch (BPF_OP(instruction->code)) {
    case BPF_JEQ:
        return a == b ? IS_TRUE : IS_FALSE;
    case BPF_JGT:
        return a > b ? IS_TRUE : IS_FALSE;
    case BPF_JGE:
        return a >= b ? IS_TRUE : IS_FALSE;
    case BPF_JSET:
        return (a & b) != 0 ? IS_TRUE : IS_FALSE;
    default:
        return IS_OPEN;
    }
}

static bool is_permission(struct value result) {
    const uint32_t action = result.number & SECCOMP_RET_ACTION_FULL;
    return result.is_known && (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG);
}

bool ag_seccomp_program_permits(const struct sock_filter *program, size_t n, long call) {
    struct way ways[WAYS_MOST];
    size_t n_ways = 1;
    /* both registers are 0 at the start */
    ways[0] = (struct way){.at = 0, .accumulator = known(0), .index = known(0)};
    for (int steps = 0; n_ways > 0; steps++) {
        struct way *way = &ways[n_ways - 1];
        if (way->at >= n || steps > STEPS_MOST) {
            return false;
        }
        const struct sock_filter *instruction = &program[way->at++];
        const uint32_t k = instruction->k;
        switch (BPF_CLASS(instruction->code)) {
        case BPF_LD:
            way->accumulator = load(way, instruction, call);
            break;
        case BPF_LDX:
            way->index = load(way, instruction, call);
            break;
        case BPF_ST:
        case BPF_STX:
            if (k < BPF_MEMWORDS) {
                way->memory[k] =
                    BPF_CLASS(instruction->code) == BPF_ST ? way->accumulator : way->index;
            }
            break;
        case BPF_ALU:
            way->accumulator = compute(way, instruction);
            break;
        case BPF_MISC:
            if (BPF_MISCOP(instruction->code) == BPF_TAX) {
                way->index = way->accumulator;
            } else {
                way->accumulator = way->index;
            }
            break;
        case BPF_JMP:
            if (BPF_OP(instruction->code) == BPF_JA) {
                way->at += k;
                break;
            }
            switch (compare(way, instruction)) {
            case IS_TRUE:
                way->at += instruction->jt;
                break;
            case IS_FALSE:
                way->at += instruction->jf;
                break;
            case IS_OPEN:
                if (n_ways == WAYS_MOST) {
                    return false;
                }
                ways[n_ways] = *way;
                ways[n_ways++].at += instruction->jf;
                way->at += instruction->jt;
                break;
            }
            break;
        case BPF_RET:
            if (!is_permission(BPF_RVAL(instruction->code) == BPF_A ? way->accumulator
                                                                    : known(k))) {
                return false;
            }
            n_ways--;
            break;
        default:
            return false;
        }
    }
    return true;
}

int ag_seccomp_filter_check(pid_t tid, const char **ret_refused) {
    struct sock_filter *program = malloc(BPF_MAXINSNS * sizeof *program);
    int r = program != NULL ? 0 : -ENOMEM;
    for (size_t filter = 0; r == 0; filter++) {
        const long n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)filter, program);
        if (n < 0 || filter == FILTERS_MOST) {
            /* ENOENT: there are no more filters */
            r = n < 0 && errno == ENOENT && filter > 0 ? 1 : n < 0 ? -errno : -E2BIG;
            break;
        }
        for (size_t i = 0; i < AG_ARRAY_SIZE(calls) && r == 0; i++) {
            if (!ag_seccomp_program_permits(program, (size_t)n, calls[i].number)) {
                *ret_refused = calls[i].name;
                r = -EPERM;
            }
        }
    }
    free(program);
    return r == 1 ? 0 : r;
}
