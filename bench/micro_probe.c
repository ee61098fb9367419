/* micro_probe.c: measures, for bench/parts/observe.py, the kernel's time for a breakpoint (uprobe)
 * at which nothing is done. This is the lower bound for observing functions from outside.
 *
 *     micro_probe ROUNDS
 *
 * Each round calls a function without a breakpoint, with a breakpoint at its entry, and with an
 * additional one at its return. The function begins with a push, which the kernel emulates. The
 * program prints one line of JSON per round: the thread's CPU time of a call in ns, and the time
 * that the breakpoints add. */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 100000 };

__asm__(".text\n.globl watched\n.type watched, @function\n"
        "watched:\n    push %rbx\n    pop %rbx\n    ret\n.size watched, . - watched\n");
extern void watched(void);

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double call_ns(void) {
    const double start = cpu_ns();
    for (int i = 0; i < CALLS; i++) {
        watched();
    }
    return (cpu_ns() - start) / CALLS;
}

/* The offset of `watched` in this program's file: the program is the first object. */
static int find_offset(struct dl_phdr_info *info, size_t size, void *ret_offset) {
    const uintptr_t address = (uintptr_t)watched - info->dlpi_addr;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - part->p_vaddr < part->p_memsz) {
            *(uint64_t *)ret_offset = address - part->p_vaddr + part->p_offset;
        }
    }
    return 1;
}

static int probe(uint32_t type, uint64_t offset, int is_return) {
    struct perf_event_attr attr = {.type = type,
                                   .size = sizeof attr,
                                   .config = (uint64_t)is_return, /* bit 0: at the return */
                                   .config1 = (uint64_t)(uintptr_t) "/proc/self/exe",
                                   .config2 = offset};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0UL);
}

static uint32_t probe_type(void) {
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
    unsigned type = 0;
    if (file == NULL || fscanf(file, "%u", &type) != 1) {
        fprintf(stderr, "micro_probe: this kernel has no uprobes\n");
        exit(1);
    }
    fclose(file);
    return type;
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 9;
    const uint32_t type = probe_type();
    uint64_t offset = 0;
    dl_iterate_phdr(find_offset, &offset);
    call_ns();
    for (int i = 0; i < rounds; i++) {
        const double plain = call_ns();
        const int begin = probe(type, offset, 0);
        const double entered = call_ns();
        const int end = probe(type, offset, 1);
        const double returned = call_ns();
        if (begin < 0 || end < 0) {
            fprintf(stderr, "micro_probe: %s; run as root\n", strerror(errno));
            return 1;
        }
        close(begin);
        close(end);
        printf("{\"plain_ns\": %.1f, \"begin_ns\": %.1f, \"both_ns\": %.1f}\n", plain,
               entered - plain, returned - plain);
    }
    return 0;
}
