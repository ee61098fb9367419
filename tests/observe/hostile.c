/* hostile.c: a program to which it is hard to attach, and which is hard to observe. The program
 * checks whether allogram has changed its state.
 *
 *     usage: hostile MODE
 *
 *     calm      a mode without a difficulty
 *     many      4,000 threads wait in system calls
 *     crowd     3,800 threads wait in system calls, 200 allocate all the time
 *     flat      200 threads allocate all the time
 *     loader    a thread holds the loader's lock for ever: dlopen in this process never returns
 *     handler   the only thread is in a signal handler for ever, so no thread may load the agent
 *     vfork     a thread calls vfork again and again; no tracer can stop it while it waits there
 *     stop      the process is stopped by SIGSTOP most of the time
 *     exec      the process executes itself, again and again
 *     circle    the list of generated code for debuggers (__jit_debug_descriptor) is circular
 *     fault     the list for debuggers is in memory that cannot be read: a read of its pages waits
 *               for ever (userfaultfd)
 *     tables    a mapped file has a thousand symbol tables, at one offset, with one string table
 *     holes     as `tables`, with tables of 24 MiB and strings of 1 GiB, which are holes in the
 *               file
 *     map       the perf map of the process (/tmp/perf-PID.map) is a hole of 1 GiB
 *
 * The program prints "ready", and calls go_round in a loop. It answers each line of its input by
 * "OK" and the sum of the numbers of calls and of allocations, or by an error, for example: a
 * changed errno, signal mask or register, or a block that another thread has changed. In the modes
 * with many threads that allocate, it answers by "STUCK" if one of them has allocated nothing since
 * the last answer. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, TABLES = 1000, THREADS = 4000, THREAD_STACK_BYTES = 256 << 10 };

struct jit_code_entry {
    struct jit_code_entry *next, *previous;
    const void *symbol_file;
    uint64_t symbol_file_bytes;
};
struct jit_descriptor {
    uint32_t version, action;
    struct jit_code_entry *relevant, *first;
};
struct jit_descriptor __jit_debug_descriptor = {.version = 1};

static void nap_us(long us) {
    const struct timespec nap = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&nap, NULL);
}

static int hold_loader(struct dl_phdr_info *info, size_t size, void *context) {
    (void)info;
    (void)size;
    (void)context;
    for (;;) {
        pause();
    }
    return 0;
}

static void *in_loader(void *unused) {
    (void)dl_iterate_phdr(hold_loader, NULL);
    return unused;
}

static void *in_vfork(void *unused) {
    for (;;) {
        const pid_t child = vfork();
        if (child == 0) {
            nap_us(300000);
            _exit(0);
        }
        (void)waitpid(child, NULL, 0);
    }
    return unused;
}

static void begin(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0) {
        exit(2);
    }
}

/* ---- many threads ---- */

static const char *_Atomic thread_wrong; /* what a thread found wrong; NULL: nothing */

/* The next four functions wait in system calls. After a stop the kernel restarts all of these but
 * epoll_wait. The first thread of wait_in_futex waits in pause, the others wait for the mutex. */
static void *wait_in_futex(void *unused) {
    static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&held);
    (void)pause();
    thread_wrong = "a pause was ended";
    return unused;
}

static void *wait_in_poll(void *unused) {
    (void)poll(NULL, 0, -1);
    thread_wrong = "a poll was ended";
    return unused;
}

static void *wait_in_epoll(void *unused) {
    struct epoll_event event;
    (void)epoll_wait(epoll_create1(EPOLL_CLOEXEC), &event, 1, -1);
    thread_wrong = "an epoll_wait was ended";
    return unused;
}

static void *wait_in_sleep(void *unused) {
    const struct timespec second = {.tv_sec = 1};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL) == 0) {
    }
    thread_wrong = "a sleep was ended";
    return unused;
}

static struct {
    pthread_mutex_t start; /* held until all threads are created */
    int n;
    _Atomic uint64_t n_blocks[THREADS]; /* how many blocks each thread has allocated */
    uint64_t n_answered[THREADS];       /* the same at the last answer */
} allocating = {.start = PTHREAD_MUTEX_INITIALIZER};

static void *allocate_always(void *own_count) {
    enum { KEPT = 16, BYTES_MOST = 3000 };
    _Atomic uint64_t *count = own_count;
    uint64_t *kept[KEPT] = {NULL};
    (void)pthread_mutex_lock(&allocating.start);
    (void)pthread_mutex_unlock(&allocating.start);
    for (uint64_t i = 0;; i++) {
        uint64_t **place = &kept[i % KEPT];
        if (*place != NULL && **place != (uintptr_t)count + i - KEPT) {
            thread_wrong = "a block has changed";
        }
        free(*place);
        *place = malloc(sizeof **place + i * 37 % BYTES_MOST);
        if (*place == NULL) {
            thread_wrong = "no memory";
            return NULL;
        }
        **place = (uintptr_t)count + i;
        atomic_store_explicit(count, i + 1, memory_order_relaxed);
    }
    return NULL;
}

/* Returns the number of blocks that all threads have allocated. Sets *ret_is_stuck if a thread has
 * allocated nothing since the last call. */
static uint64_t count_blocks(bool *ret_is_stuck) {
    uint64_t n_blocks = 0;
    for (int i = 0; i < allocating.n; i++) {
        const uint64_t n = atomic_load_explicit(&allocating.n_blocks[i], memory_order_relaxed);
        *ret_is_stuck |= n == allocating.n_answered[i];
        allocating.n_answered[i] = n;
        n_blocks += n;
    }
    return n_blocks;
}

static int begin_many(int n_waiting, int n_allocating) {
    static void *(*const waits[])(void *) = {wait_in_futex, wait_in_poll, wait_in_epoll,
                                             wait_in_sleep};
    pthread_attr_t attributes;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    (void)pthread_mutex_lock(&allocating.start);
    for (int i = 0; i < n_waiting + n_allocating; i++) {
        pthread_t thread;
        const int r = i < n_waiting ? pthread_create(&thread, &attributes, waits[i % 4], NULL)
                                    : pthread_create(&thread, &attributes, allocate_always,
                                                     &allocating.n_blocks[allocating.n++]);
        if (r != 0) {
            return -1;
        }
    }
    nap_us(300000); /* until all threads wait */
    if (n_allocating > 0) {
        /* so that the first thread can answer; not permitted to every user */
        (void)setpriority(PRIO_PROCESS, 0, -20);
    }
    (void)pthread_mutex_unlock(&allocating.start);
    return 0;
}

/* ---- data that `allogram observe` reads ---- */

static uint8_t object[PAGE];

/* Builds an object file with one function. */
static void make_object(void) {
    struct {
        Elf64_Ehdr header;
        Elf64_Shdr sections[3];
        Elf64_Sym symbols[2];
        char strings[16];
    } *file = (void *)object;
    memcpy(file->header.e_ident, ELFMAG, SELFMAG);
    file->header.e_ident[EI_CLASS] = ELFCLASS64;
    file->header.e_ident[EI_DATA] = ELFDATA2LSB;
    file->header.e_type = ET_EXEC;
    file->header.e_phoff = 0;
    file->header.e_shoff = (uint64_t)((uint8_t *)file->sections - object);
    file->header.e_shentsize = sizeof(Elf64_Shdr);
    file->header.e_shnum = 3;
    file->sections[1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                     .sh_offset = (uint64_t)((uint8_t *)file->symbols - object),
                                     .sh_size = sizeof file->symbols,
                                     .sh_entsize = sizeof(Elf64_Sym),
                                     .sh_link = 2};
    file->sections[2] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                     .sh_offset = (uint64_t)((uint8_t *)file->strings - object),
                                     .sh_size = sizeof file->strings};
    file->symbols[1] = (Elf64_Sym){.st_name = 1,
                                   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                   .st_shndx = 1,
                                   .st_value = 0x1000,
                                   .st_size = 16};
    memcpy(file->strings, "\0generated", 11);
}

static void make_circle(void) {
    static struct jit_code_entry entries[2];
    const size_t n_bytes = 32 << 20;
    uint8_t *large =
        mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    make_object();
    memcpy(large, object, sizeof object);
    for (int i = 0; i < 2; i++) {
        entries[i] = (struct jit_code_entry){&entries[!i], &entries[!i], large, n_bytes};
    }
    __jit_debug_descriptor.first = &entries[0];
}

static int make_fault(void) {
    const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)page, PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &range) < 0) {
        return -1;
    }
    __jit_debug_descriptor.first = page;
    return 0;
}

/* Maps, as code, an ELF file with TABLES symbol tables of table_bytes that share one string table.
 */
static int make_tables(uint64_t table_bytes, uint64_t string_bytes) {
    char path[64];
    const uint64_t code_bytes = PAGE, sections_at = 2 * PAGE;
    const uint64_t table_at = sections_at + (TABLES + 2) * sizeof(Elf64_Shdr);
    const uint64_t strings_at = table_at + table_bytes;
    snprintf(path, sizeof path, "/tmp/hostile.%d.so", (int)getpid());
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (fd < 0 || ftruncate(fd, (off_t)(strings_at + string_bytes)) < 0) {
        return -1;
    }
    const Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_phoff = sizeof(Elf64_Ehdr),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 1,
        .e_shoff = sections_at,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = TABLES + 2};
    const Elf64_Phdr code = {.p_type = PT_LOAD,
                             .p_flags = PF_R | PF_X,
                             .p_offset = 0,
                             .p_vaddr = 0,
                             .p_filesz = code_bytes,
                             .p_memsz = code_bytes};
    if (pwrite(fd, &header, sizeof header, 0) < 0 ||
        pwrite(fd, &code, sizeof code, sizeof header) < 0) {
        return -1;
    }
    for (int i = 1; i <= TABLES + 1; i++) {
        const Elf64_Shdr section = {.sh_type = i <= TABLES ? SHT_SYMTAB : SHT_STRTAB,
                                    .sh_offset = i <= TABLES ? table_at : strings_at,
                                    .sh_size = i <= TABLES ? table_bytes : string_bytes,
                                    .sh_entsize = i <= TABLES ? sizeof(Elf64_Sym) : 0,
                                    .sh_link = TABLES + 1};
        if (pwrite(fd, &section, sizeof section,
                   (off_t)(sections_at + (uint64_t)i * sizeof section)) < 0) {
            return -1;
        }
    }
    void *mapped = mmap(NULL, code_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    return mapped == MAP_FAILED ? -1 : 0;
}

static int make_map(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : ftruncate(fd, INT64_C(1) << 30);
}

/* ---- the work, in rounds ---- */

static const char *wrong;
static uint64_t n_rounds;
static sigset_t own_mask;

static void go_round(void) {
    sigset_t mask = {0};
    errno = 4711;
    const struct timespec nap = {.tv_nsec = 1000000};
    register uint64_t kept __asm__("r12") = n_rounds + 1;
    __asm__ volatile("" : "+r"(kept));
    const long r = clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    __asm__ volatile("" : "+r"(kept));
    if (r != 0) {
        wrong = "a sleep that no signal ended was ended";
    }
    if (errno != 4711) {
        wrong = "errno changed";
    }
    if (kept != ++n_rounds) {
        wrong = "a register changed";
    }
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (memcmp(&mask, &own_mask, sizeof mask) != 0) {
        wrong = "the signal mask changed";
    }
    if (sched_getscheduler(0) != SCHED_OTHER) {
        wrong = "the scheduler changed";
    }
    if (thread_wrong != NULL) {
        wrong = thread_wrong;
    }
}

static void serve(uint64_t most) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char line[64];
    for (uint64_t i = 0; i < most; i++) {
        go_round();
        if (poll(&input, 1, 0) == 1) {
            if (read(STDIN_FILENO, line, sizeof line) <= 0) {
                _exit(0);
            }
            bool is_stuck = false;
            const uint64_t n_done = n_rounds + count_blocks(&is_stuck);
            if (wrong != NULL) {
                dprintf(STDOUT_FILENO, "%s\n", wrong);
            } else {
                dprintf(STDOUT_FILENO, "%s %llu\n", is_stuck ? "STUCK" : "OK",
                        (unsigned long long)n_done);
            }
        }
    }
}

static void in_handler(int number) {
    (void)number;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &own_mask);
    dprintf(STDOUT_FILENO, "ready\n");
    serve(UINT64_MAX);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "calm";
    const bool is_again = argc > 2;
    int r = 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &own_mask);
    if (strcmp(mode, "loader") == 0) {
        begin(in_loader);
    } else if (strcmp(mode, "vfork") == 0) {
        begin(in_vfork);
    } else if (strcmp(mode, "many") == 0) {
        r = begin_many(THREADS, 0);
    } else if (strcmp(mode, "crowd") == 0) {
        r = begin_many(THREADS - 200, 200);
    } else if (strcmp(mode, "flat") == 0) {
        r = begin_many(0, 200);
    } else if (strcmp(mode, "circle") == 0) {
        make_circle();
    } else if (strcmp(mode, "fault") == 0) {
        r = make_fault();
    } else if (strcmp(mode, "tables") == 0) {
        r = make_tables(64 * sizeof(Elf64_Sym), 256 << 10);
    } else if (strcmp(mode, "holes") == 0) {
        r = make_tables(UINT64_C(24) << 20, UINT64_C(1) << 30);
    } else if (strcmp(mode, "map") == 0) {
        r = make_map();
    }
    if (strcmp(mode, "handler") == 0) {
        (void)signal(SIGUSR1, in_handler);
        (void)raise(SIGUSR1);
    }
    if (!is_again) {
        dprintf(STDOUT_FILENO, r == 0 ? "ready\n" : "cannot be done here\n");
    }
    if (strcmp(mode, "exec") == 0) {
        serve(8);
        execl("/proc/self/exe", "hostile", mode, "again", (char *)NULL);
    }
    if (strcmp(mode, "stop") == 0) {
        if (fork() == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) {
                nap_us(2000);
                (void)kill(getppid(), SIGSTOP);
                nap_us(30000);
                (void)kill(getppid(), SIGCONT);
            }
        }
    }
    serve(UINT64_MAX);
}
