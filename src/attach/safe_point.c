/* safe_point.c: decides for `attach` whether a stopped thread may call dlopen at this point.
 *
 * dlopen takes the loader's lock, allocates, and reads the list of threads; the allocator and this
 * list have locks, too. A thread that holds any of these locks, or is changing the data that they
 * protect, must not be made to call dlopen. So the whole stack is walked, by the unwind tables of
 * the mapped files, and has to meet these conditions:
 *
 *     condition                                          reason
 *     the thread is not stopped by a signal              it would not execute the call
 *     the innermost frame is in a mapped file            other code cannot be judged
 *     the walk ends at the thread's first frame          otherwise the stack has unknown code
 *     the stack has 4 KiB of room                        mmap is called on it; if the stack is a
 *                                                        coroutine's, or short, the other calls
 *                                                        use a new stack (remote_call.c)
 *     no signal interrupted a frame                      the interrupted code may hold such a lock
 *     no frame is in the loader, in the allocator, or    these functions hold locks
 *     in a function of the libc that is listed below
 *     the innermost frame is in the libc only during a   elsewhere in the libc, its state between
 *     system call that waits                             two calls of internal functions is unknown
 *     the innermost frame is not in a stub of the PLT    the caller, which may hold a lock, has no
 *                                                        frame anymore if it jumped to the stub
 *     the thread is in no restartable sequence (rseq)    the kernel would not restart the sequence
 *     the thread does not intercept its own system       the program would intercept the system
 *     calls (syscall user dispatch)                      calls of dlopen, too
 *     the thread has no child or parent in the same      they may share its thread-local storage
 *     memory (clone with CLONE_VM)
 *
 * The allocator of a program consists of its functions malloc, free and so on; that of a library
 * with such functions is all code of the library. Functions that these functions reach by jumps
 * belong to the allocator, too, because a function that ends with a jump to another function has no
 * frame while the other one runs (reached_code.h).
 *
 * The allocator of the libc is taken to be all code from the end of the last function before the
 * functions of malloc to the start of the first function after them. Functions without a name in
 * this range belong to the allocator. */
#include "safe_point.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "reached_code.h"
#include "remote/memory_sharers.h"
#include "remote/remote_memory.h"

enum {
    ROOM_BYTES = 96 << 10,      /* dlopen and the start of a recording take some 12 KiB */
    LEAST_ROOM_BYTES = 4 << 10, /* room for the call that maps a stack; a signal handler needs as
                                 * much */
    SCAN_BYTES = 256 << 10,     /* how much of a stack that cannot be walked is searched */
    RSEQ_CONFIGURATION = 0x420f,
    RSEQ_SECTION_OFFSET = 8,
};

/* ---- what code belongs to ---- */

static const char in_allocator[] = "in the allocator";
static const char in_loader[] = "in the loader";
static const char in_libc[] = "in a function of the libc that holds its locks";

static const char *const allocator_functions[] = {
    "malloc",          "free",           "calloc",       "realloc",       "memalign",
    "aligned_alloc",   "posix_memalign", "valloc",       "pvalloc",       "malloc_usable_size",
    "malloc_trim",     "mallopt",        "mallinfo",     "mallinfo2",     "malloc_stats",
    "malloc_info",     "__libc_malloc",  "__libc_free",  "__libc_calloc", "__libc_realloc",
    "__libc_memalign", "cfree",          "reallocarray", "mallocx",       "rallocx",
    "dallocx",         "sdallocx",       "je_malloc",    "je_free",       "je_calloc",
    "je_realloc",      "_rjem_malloc",   "_rjem_free",   "_rjem_calloc",  "_rjem_realloc",
    "mi_malloc",       "mi_free",        "mi_calloc",    "mi_realloc",    "tc_malloc",
    "tc_free",         "tc_calloc",      "tc_realloc"};
static const char *const lock_holders[] = {"pthread_create", "pthread_exit",
                                           "pthread_atfork", "fork",
                                           "_Fork",          "vfork",
                                           "__libc_fork",    "posix_spawn",
                                           "posix_spawnp",   "system",
                                           "popen",          "dl_iterate_phdr",
                                           "dlopen",         "dlclose",
                                           "dlsym",          "dlvsym",
                                           "dladdr",         "dladdr1",
                                           "dlmopen",        "dlinfo",
                                           "dlerror",        "__libc_dlopen_mode",
                                           "__libc_dlclose", "__libc_dlsym",
                                           "exit",           "_exit",
                                           "quick_exit",     "abort",
                                           "__cxa_finalize", "__libc_freeres",
                                           "execve",         "execvpe",
                                           "setuid",         "setgid",
                                           "setresuid",      "setresgid",
                                           "__tls_get_addr", "iconv_open",
                                           "getaddrinfo",    "getpwnam_r",
                                           "getpwuid_r",     "gethostbyname_r",
                                           "backtrace"};

static int add_zone(struct ag_safe_ground *ground, uint64_t low, uint64_t high, const char *what) {
    if (ground->n_zones == AG_ZONES_MOST) {
        return -ENOMEM;
    }
    ground->zones[ground->n_zones++] = (struct ag_zone){low, high, what};
    return 0;
}

/* Returns a description of the zone that contains ADDRESS; NULL: none does. */
static const char *zone_obstacle(const struct ag_safe_ground *ground, uint64_t address) {
    for (size_t i = 0; i < ground->n_zones; i++) {
        if (ground->zones[i].low <= address && address < ground->zones[i].high) {
            return ground->zones[i].what;
        }
    }
    return NULL;
}

static int add_functions(struct ag_safe_ground *ground, struct ag_observed_image *image,
                         const char *const *names, size_t n_names, const char *what) {
    for (size_t i = 0; i < n_names; i++) {
        const struct ag_remote_symbol *symbol = ag_remote_elf_symbol(image->elf, names[i]);
        if (symbol != NULL && symbol->is_function) {
            const uint64_t low = symbol->address + image->bias;
            const int r = add_zone(ground, low, low + symbol->n_bytes, what);
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

static bool is_allocator_function(const char *name) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(allocator_functions); i++) {
        if (strcmp(allocator_functions[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the code of the libc's allocator, as described at the top of this file. */
static int add_libc_allocator(struct ag_safe_ground *ground,
                              const struct ag_observed_image *image) {
    const struct ag_remote_elf *elf = image->elf;
    uint64_t first = UINT64_MAX, end = 0;
    for (size_t i = 0; i < elf->n_symbols; i++) {
        const struct ag_remote_symbol *symbol = &elf->symbols[i];
        if (symbol->is_function && is_allocator_function(symbol->name)) {
            first = symbol->address < first ? symbol->address : first;
            end = symbol->address + symbol->n_bytes > end ? symbol->address + symbol->n_bytes : end;
        }
    }
    uint64_t low = 0, high = UINT64_MAX;
    for (size_t i = 0; i < elf->n_symbols; i++) {
        const struct ag_remote_symbol *symbol = &elf->symbols[i];
        if (!symbol->is_function || symbol->n_bytes == 0) {
            continue;
        }
        const uint64_t symbol_end = symbol->address + symbol->n_bytes;
        low = symbol_end <= first && symbol_end > low ? symbol_end : low;
        high = symbol->address >= end && symbol->address < high ? symbol->address : high;
    }
    if (first >= end) {
        return 0;
    }
    ground->libc_allocator = (struct ag_code_range){low + image->bias, high + image->bias};
    return add_zone(ground, low + image->bias, high + image->bias, in_allocator);
}

static bool begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Adds the allocation functions of an image that has a malloc of its own, and the functions that
 * they reach by jumps. */
static void add_own_allocator(struct ag_reached_code *reached, struct ag_observed_image *image) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(allocator_functions); i++) {
        const struct ag_remote_symbol *symbol =
            ag_remote_elf_symbol(image->elf, allocator_functions[i]);
        if (symbol != NULL && symbol->is_function) {
            ag_reached_code_add(reached, symbol->address + image->bias);
        }
    }
}

static int add_image(struct ag_safe_ground *ground, struct ag_observed_image *image,
                     struct ag_reached_code *reached) {
    const char *name = basename(image->path);
    /* reads the symbols, before any thread is stopped */
    (void)ag_remote_elf_symbol(image->elf, "");
    if (begins_with(name, "ld-linux") || begins_with(name, "ld-2.") || begins_with(name, "ld.so") ||
        begins_with(name, "libdl.") || begins_with(name, "libdl-")) {
        return add_zone(ground, image->low, image->high, in_loader);
    }
    if (image == ground->libc || begins_with(name, "libpthread")) {
        int r = add_functions(ground, image, lock_holders, AG_ARRAY_SIZE(lock_holders), in_libc);
        return r < 0 || image != ground->libc ? r : add_libc_allocator(ground, image);
    }
    const bool has_malloc = ag_remote_elf_symbol(image->elf, "malloc") != NULL;
    if (has_malloc) {
        add_own_allocator(reached, image);
    }
    if (image->is_program) {
        return add_functions(ground, image, allocator_functions, AG_ARRAY_SIZE(allocator_functions),
                             in_allocator);
    }
    return has_malloc ? add_zone(ground, image->low, image->high, in_allocator) : 0;
}

int ag_safe_ground_survey(struct ag_safe_ground *ground, struct ag_observed_images *images,
                          const struct ag_observed_image *libc) {
    ground->images = images;
    ground->walker.images = images;
    ground->libc = libc;
    ground->n_zones = 0;
    static struct ag_reached_code reached; /* attach examines one process, in one thread */
    reached = (struct ag_reached_code){.images = images, .libc = libc};
    int r = 0;
    for (size_t i = 0; i < images->n_sorted && r == 0; i++) {
        if (images->sorted[i]->is_open) {
            r = add_image(ground, images->sorted[i], &reached);
        }
    }
    for (size_t i = 0; i < reached.n && r == 0; i++) {
        const uint64_t low = reached.functions[i].low, high = reached.functions[i].high;
        const bool is_in_zone = zone_obstacle(ground, low) && zone_obstacle(ground, high - 1);
        r = is_in_zone ? 0 : add_zone(ground, low, high, in_allocator);
    }
    return r;
}

void ag_safe_ground_done(struct ag_safe_ground *ground) {
    ag_frame_walker_done(&ground->walker);
}

/* ---- walking ---- */

static struct allogram_registers registers_of(const struct user_regs_struct *from) {
    struct allogram_registers to = {.known = (1u << ALLOGRAM_REGISTERS) - 1};
    const uint64_t values[ALLOGRAM_REGISTERS] = {
        from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
        from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
        from->r12, from->r13, from->r14, from->r15, from->rip};
    memcpy(to.value, values, sizeof values);
    return to;
}

/* Walks the thread's stack into ground->frames. Returns the number of frames. */
static size_t walk_stack(struct ag_safe_ground *ground, const struct ag_traced_thread *thread,
                         enum allogram_walk_end *ret_end) {
    const struct allogram_registers registers = registers_of(&thread->registers);
    const ssize_t n = ag_remote_memory_read_some(thread->pid, thread->registers.rsp, ground->stack,
                                                 sizeof ground->stack);
    struct ag_stack_copy stack = {.address = thread->registers.rsp,
                                  .bytes = ground->stack,
                                  .n_bytes = n > 0 ? (size_t)n : 0,
                                  .pid = n > 0 ? thread->pid : 0};
    const size_t n_frames = ag_frame_walk(&ground->walker, &registers, &stack, ground->frames,
                                          AG_SAFE_POINT_FRAMES, ret_end);
    ag_stack_copy_done(&stack);
    return n_frames;
}

static uint64_t address_of(const struct allogram_native_frame *frame) {
    return frame->pc - !frame->is_exact;
}

/* ---- is it safe to call from here? ---- */

/* Whether a thread that waits in this system call holds no lock of the libc. (Functions that make
 * such a call while they hold a lock are in the zones, see ag_zone.) System calls that change the
 * process' memory are not in the list. */
static bool is_waiting_call(long call) {
    static const long calls[] = {SYS_read,          SYS_write,           SYS_readv,
                                 SYS_writev,        SYS_pread64,         SYS_pwrite64,
                                 SYS_poll,          SYS_ppoll,           SYS_select,
                                 SYS_pselect6,      SYS_epoll_wait,      SYS_epoll_pwait,
                                 SYS_epoll_pwait2,  SYS_nanosleep,       SYS_clock_nanosleep,
                                 SYS_futex,         SYS_recvfrom,        SYS_recvmsg,
                                 SYS_recvmmsg,      SYS_sendto,          SYS_sendmsg,
                                 SYS_accept,        SYS_accept4,         SYS_connect,
                                 SYS_wait4,         SYS_waitid,          SYS_pause,
                                 SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_semop,
                                 SYS_semtimedop,    SYS_msgrcv,          SYS_msgsnd,
                                 SYS_flock,         SYS_fcntl,           SYS_io_getevents,
                                 SYS_sched_yield,   SYS_restart_syscall, SYS_fsync,
                                 SYS_fdatasync,     SYS_getpid,          SYS_gettid,
                                 SYS_getppid,       SYS_fstat,           SYS_newfstatat,
                                 SYS_lseek,         SYS_ioctl,           SYS_io_uring_enter,
                                 SYS_splice,        SYS_sendfile};
    for (size_t i = 0; i < AG_ARRAY_SIZE(calls); i++) {
        if (calls[i] == call) {
            return true;
        }
    }
    return false;
}

bool ag_safe_point_has_room(const struct ag_safe_ground *ground,
                            const struct ag_traced_thread *thread) {
    const uint64_t sp = thread->registers.rsp;
    const struct ag_remote_mapping *mapping = ag_remote_maps_find(&ground->images->maps, sp);
    if (mapping == NULL) {
        return false;
    }
    if (thread->tid == thread->pid) { /* the first thread's stack grows automatically */
        return strcmp(mapping->path, "[stack]") == 0;
    }
    /* glibc puts the TCB (thread control block) at the top of the stack */
    const uint64_t tcb = thread->registers.fs_base;
    return tcb > sp && tcb < mapping->high && sp - mapping->low >= ROOM_BYTES;
}

static const char *stack_obstacle(const struct ag_safe_ground *ground,
                                  const struct ag_traced_thread *thread) {
    const uint64_t sp = thread->registers.rsp;
    const struct ag_remote_mapping *mapping = ag_remote_maps_find(&ground->images->maps, sp);
    if (mapping == NULL) {
        return "on a stack that was just created";
    }
    return ag_safe_point_has_room(ground, thread) || sp - mapping->low >= LEAST_ROOM_BYTES
               ? NULL
               : "with too little room on its stack";
}

static const char *sequence_obstacle(const struct ag_traced_thread *thread) {
    struct {
        uint64_t area;
        uint32_t n_bytes, signature, flags, padding;
    } configuration = {0};
    uint64_t section = 0;
    if (ptrace((enum __ptrace_request)RSEQ_CONFIGURATION, thread->tid, (void *)sizeof configuration,
               &configuration) < 0 ||
        configuration.area == 0) {
        /* a kernel before 5.13 does not report the rseq area, or the thread has none */
        return NULL;
    }
    const int r = ag_remote_memory_read(thread->pid, configuration.area + RSEQ_SECTION_OFFSET,
                                        &section, sizeof section);
    return r == 0 && section == 0 ? NULL : "in a restartable sequence";
}

const char *ag_safe_point_obstacle(struct ag_safe_ground *ground,
                                   const struct ag_traced_thread *thread) {
    enum allogram_walk_end end = ALLOGRAM_WALK_UNKNOWN;
    const char *obstacle = thread->is_held ? "stopped by a signal" : stack_obstacle(ground, thread);
    if (obstacle != NULL) {
        return obstacle;
    }
    const long call = ag_traced_thread_call(thread);
    const struct ag_observed_image *image =
        ag_observed_images_find(ground->images, thread->registers.rip);
    if (image == NULL) {
        return "in code that belongs to no file";
    }
    if (call >= 0 && !is_waiting_call(call)) {
        return "in a system call that does not block";
    }
    if (call < 0 && (image == ground->libc || begins_with(basename(image->path), "libpthread"))) {
        return "in the libc";
    }
    if (call < 0 && ag_is_in_stub(thread->pid, thread->registers.rip)) {
        return "at a call of a library function";
    }
    const size_t n = walk_stack(ground, thread, &end);
    for (size_t i = 0; i < n; i++) {
        const uint64_t address = address_of(&ground->frames[i]);
        obstacle = i > 0 && ground->frames[i].is_exact ? "in a signal handler"
                                                       : zone_obstacle(ground, address);
        if (obstacle != NULL) {
            return obstacle;
        }
    }
    if (end != ALLOGRAM_WALK_OUTERMOST) {
        return "where its stack cannot be unwound";
    }
    if (ag_traced_thread_intercepts(thread)) {
        return "intercepting its own system calls (syscall user dispatch)";
    }
    obstacle = sequence_obstacle(thread);
    return obstacle == NULL && ag_thread_has_memory_sharer(thread->pid, thread->tid)
               ? "the parent or child of a process that runs in the same memory"
               : obstacle;
}

/* ---- is the thread in certain code? ---- */

static bool is_in(const struct ag_code_range *ranges, size_t n_ranges, uint64_t address) {
    for (size_t i = 0; i < n_ranges; i++) {
        if (ranges[i].low <= address && address < ranges[i].high) {
            return true;
        }
    }
    return false;
}

/* Whether WORD, at address AT of the stack, may be the return address of an active call, or the pc
 * of code that a signal interrupted. Other addresses of code are pointers to functions, or are left
 * from calls that have ended: Erlang keeps pointers to its native functions on the stacks of its
 * schedulers, and the thread-local storage at the end of each stack keeps pointers into libraries
 * that are unloaded, whose addresses the agent may have now. */
static bool is_way_back(struct ag_safe_ground *ground, const struct ag_traced_thread *thread,
                        uint64_t at, uint64_t word) {
    enum { PC_OFFSET = 176 }; /* of rip in the kernel's frame of a signal (struct rt_sigframe) */
    uint64_t below = 0;
    return (ag_is_after_call(thread->pid, word) &&
            ag_frame_may_be_active(&ground->walker, word, at + sizeof word, thread->pid)) ||
           (ag_remote_memory_read(thread->pid, at - PC_OFFSET, &below, sizeof below) == 0 &&
            ag_is_restorer(thread->pid, below));
}

/* Whether the part of the stack that could not be walked contains a return address in the ranges.
 * The frames that the last walk has found for certain are not searched: they may contain old return
 * addresses in variables that were never set, and a thread may wait in such frames for ever. */
static bool has_word_in(struct ag_safe_ground *ground, const struct ag_traced_thread *thread,
                        const struct ag_code_range *ranges, size_t n_ranges) {
    uint64_t at = ground->frames[ground->walker.n_certain - 1].sp & ~(uint64_t)7;
    const uint64_t end = at + SCAN_BYTES;
    while (at < end) {
        const ssize_t n =
            ag_remote_memory_read_some(thread->pid, at, ground->stack, sizeof ground->stack);
        for (ssize_t i = 0; i + 8 <= n; i += 8) {
            uint64_t word;
            memcpy(&word, ground->stack + i, sizeof word);
            if (is_in(ranges, n_ranges, word) &&
                is_way_back(ground, thread, at + (uint64_t)i, word)) {
                return true;
            }
        }
        if (n < (ssize_t)sizeof ground->stack) {
            break;
        }
        at += (uint64_t)n;
    }
    return false;
}

bool ag_thread_is_in_ranges(struct ag_safe_ground *ground, const struct ag_traced_thread *thread,
                            const struct ag_code_range *ranges, size_t n_ranges) {
    enum allogram_walk_end end = ALLOGRAM_WALK_UNKNOWN;
    const size_t n = walk_stack(ground, thread, &end);
    for (size_t i = 0; i < n; i++) {
        if (is_in(ranges, n_ranges, address_of(&ground->frames[i]))) {
            return true;
        }
    }
    return end != ALLOGRAM_WALK_OUTERMOST && has_word_in(ground, thread, ranges, n_ranges);
}

bool ag_thread_is_busy_in(struct ag_safe_ground *ground, const struct ag_traced_thread *thread,
                          const struct ag_code_range *ranges, size_t n_ranges) {
    enum allogram_walk_end end = ALLOGRAM_WALK_UNKNOWN;
    const size_t n = walk_stack(ground, thread, &end);
    if (end != ALLOGRAM_WALK_OUTERMOST) {
        return has_word_in(ground, thread, ranges, n_ranges);
    }
    size_t i = n;
    while (i > 1 && ag_observed_images_find(ground->images, address_of(&ground->frames[i - 1])) ==
                        ground->libc) {
        i--;
    }
    while (i > 1 && is_in(ranges, n_ranges, address_of(&ground->frames[i - 1]))) {
        /* the outermost frames: code in the ranges started the thread and called the thread's
         * function */
        i--;
    }
    while (i > 0 && !is_in(ranges, n_ranges, address_of(&ground->frames[i - 1]))) {
        i--;
    }
    return i > 0;
}
