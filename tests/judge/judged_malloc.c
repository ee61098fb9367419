/* judged_malloc.c: malloc, calloc, realloc, memalign and aligned_alloc of corner_cases.cc. At each
 * call allogram's unwinder captures the stack. The result is compared frame by frame with that of
 * the unwinder without its caches (the plain walk), and with that of libunwind (judge.h). The first
 * differences are printed. */
#include "judged_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../bench/loaded_images.h"
#include "base/populate.h"
#include "judge.h"
#include "unwind/arch/x86_64/capture_entry.h"
#include "unwind/stack_walker_fast.h"

enum { DEPTH = 256, SHOWN_DIFFERENCES = 5, PCS = DEPTH + 1, TRAP_FLAG = 1 << 8 };

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

struct judged_counts judged_counts;
static struct ag_unwind_space *space;
static void *tree;

/* The state of a thread. The buffers are not on the stack, because some of the stacks are tiny. */
struct judged_thread {
    struct ag_walker *walker;
    bool is_capturing, is_judging;
    uint64_t ours[PCS];
    uintptr_t theirs[PCS];
};
static __thread struct judged_thread *self;

void judged_dlclose(void *handle) {
    struct link_map *map;
    struct ag_unwind_image image, still;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
        return;
    }
    const bool found =
        loaded_image_find(NULL, (uintptr_t)map->l_ld, loaded_image_copy, &image) == 0;
    dlclose(handle);
    if (found && loaded_image_find(NULL, image.low, loaded_image_copy, &still) < 0) {
        ag_unwind_space_forget(space, image.low, image.high);
        allogram_judge_forget();
    }
}

/* ---- threads ------------------------------------------------------------- */
static void *map_private(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

/* Called at the first allocation, when the process has only one thread. */
static bool start_process(void) {
    tree = mmap(NULL, AG_TREE_BYTES, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *private = map_private(ag_unwind_space_bytes());
    if (tree == MAP_FAILED || private == NULL) {
        return false;
    }
    space = ag_unwind_space_init(private, tree, AG_TREE_SIZES - 1, NULL, DEPTH, ag_populate,
                                 loaded_image_find, NULL);
    return space != NULL;
}

static struct judged_thread *start_thread(void) {
    if (space == NULL && !start_process()) {
        return NULL;
    }
    struct judged_thread *thread = map_private(sizeof *thread);
    void *memory = map_private(ag_walker_bytes(DEPTH));
    if (thread == NULL || memory == NULL) {
        return NULL;
    }
    thread->walker = ag_walker_init(memory, DEPTH);
    self = thread;
    return thread;
}

/* ---- judging ------------------------------------------------------------- */
static void count(unsigned long *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void print_frame(const char *prefix, uintptr_t pc) {
    Dl_info info = {0};
    char line[256];
    const bool found = dladdr((void *)(pc - 1), &info) != 0;
    const int n = snprintf(line, sizeof line, "  %s %#lx %s %s\n", prefix, pc,
                           found && info.dli_sname ? info.dli_sname : "?",
                           found && info.dli_fname ? info.dli_fname : "?");
    (void)!write(STDERR_FILENO, line, (size_t)n);
}

static void show_difference(const struct judged_thread *thread, int n_ours, int n_theirs,
                            enum ag_root root) {
    static int n_shown;
    if (__atomic_fetch_add(&n_shown, 1, __ATOMIC_RELAXED) >= SHOWN_DIFFERENCES) {
        return;
    }
    dprintf(STDERR_FILENO, "difference: ours %d frames (root %d), the judge's %d\n", n_ours,
            (int)root, n_theirs);
    for (int i = 0; i < n_ours || i < n_theirs; i++) {
        const bool same = i < n_ours && i < n_theirs && thread->ours[i] == thread->theirs[i];
        if (i < n_ours) {
            print_frame(same ? "both " : "ours ", thread->ours[i]);
        }
        if (i < n_theirs && !same) {
            print_frame("judge", thread->theirs[i]);
        }
    }
}

/* Whether the pc is in a function of libgcc that throws. No unwinder can unwind the last steps of a
 * throw. libgcc's function overwrites the registers that it saved for its caller with those of the
 * handler's frame, and returns by eh_return. No CFI describes this. */
static bool is_of_a_throw(uintptr_t pc) {
    static const char *const throwers[] = {"_Unwind_RaiseException", "_Unwind_Resume",
                                           "_Unwind_ForcedUnwind", "_Unwind_Resume_or_Rethrow"};
    Dl_info info = {0};
    const bool is_named = dladdr((const void *)(pc - 1), &info) != 0 && info.dli_sname != NULL;
    bool is = false;
    for (size_t i = 0; is_named && i < sizeof throwers / sizeof throwers[0]; i++) {
        is |= strcmp(info.dli_sname, throwers[i]) == 0;
    }
    return is;
}
static bool was_interrupted_in_a_throw(const uint64_t *pcs, int n_pcs) {
    static const unsigned char restore_rt[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    for (int i = 0; i + 1 < n_pcs; i++) {
        Dl_info info = {0}; /* the code at a pc is read only if a mapped file contains it */
        if (dladdr((const void *)pcs[i], &info) != 0 &&
            memcmp((const void *)pcs[i], restore_rt, sizeof restore_rt) == 0) {
            return is_of_a_throw(pcs[i + 1]) || (i + 2 < n_pcs && is_of_a_throw(pcs[i + 2]));
        }
    }
    return false;
}

static void judge(struct judged_thread *thread, const uintptr_t *sp, uintptr_t rbp, uint32_t node) {
    if (!ag_walker_self_check(space, sp, rbp, node)) {
        count(&judged_counts.differ_from_plain);
    }
    enum ag_root root;
    const int n_ours = ag_stack_tree_frames(&space->tree, node, PCS, thread->ours, &root);
    if (n_ours < 0) {
        count(&judged_counts.lost);
        return;
    }
    /* libunwind blocks all signals, and a blocked SIGTRAP would kill the process. So the trap flag
     * is cleared while libunwind runs. */
    const unsigned long flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(flags & ~TRAP_FLAG);
    int n_theirs = allogram_judge(sp, thread->theirs, PCS);
    __builtin_ia32_writeeflags_u64(flags);
    if (n_theirs < 0) { // libunwind is not loaded yet, or has not found the first frame
        count(&judged_counts.not_judged);
    } else if (root == AG_ROOT_CUT && n_theirs > DEPTH) {
        n_theirs = DEPTH;
    }
    const bool differs =
        n_theirs >= 0 && (n_ours != n_theirs || memcmp(thread->ours, thread->theirs,
                                                       (size_t)n_ours * sizeof(uintptr_t)) != 0);
    if ((differs || root == AG_ROOT_INCOMPLETE) &&
        was_interrupted_in_a_throw(thread->ours, n_ours)) {
        count(&judged_counts.in_a_throw);
        return;
    }
    if (root == AG_ROOT_INCOMPLETE) {
        count(&judged_counts.incomplete);
    } else if (root == AG_ROOT_CUT) {
        count(&judged_counts.cut);
    }
    if (differs) {
        count(&judged_counts.differ_from_judge);
    }
    if (differs || root == AG_ROOT_INCOMPLETE) {
        show_difference(thread, n_ours, n_theirs > 0 ? n_theirs : 0, root);
    }
}

static void capture(const uintptr_t *sp, uintptr_t rbp) {
    const int saved_errno = errno;
    struct judged_thread *thread = self != NULL ? self : start_thread();
    if (thread == NULL || thread->is_judging) { // called within libunwind
        count(&judged_counts.not_judged);
        return;
    }
    const bool interrupted_a_capture = thread->is_capturing;
    thread->is_capturing = true;
    const uint32_t node = interrupted_a_capture
                              ? ag_walk_plain(space, sp, rbp)
                              : ag_walker_capture_fast(thread->walker, space, sp, rbp);
    count(&judged_counts.captures);
    if (!interrupted_a_capture) {
        thread->is_judging = true;
        thread->is_capturing = false;
    }
    if (node == 0) {
        count(&judged_counts.lost);
    } else if (!interrupted_a_capture) {
        judge(thread, sp, rbp, node);
    } else { // a signal handler has interrupted a capture: the thread's buffers are in use
        struct judged_thread *other = map_private(sizeof *other);
        thread->is_judging = true;
        judge(other, sp, rbp, node);
        munmap(other, sizeof *other);
    }
    thread->is_judging = false;
    errno = saved_errno;
}

/* ---- malloc, calloc, realloc, memalign ----------------------------------- */
#define HIDDEN __attribute__((used, visibility("hidden")))
HIDDEN void *judged_malloc(size_t bytes, const uintptr_t *sp, uintptr_t rbp);
HIDDEN void *judged_calloc(size_t n, size_t bytes, const uintptr_t *sp, uintptr_t rbp);
HIDDEN void *judged_realloc(void *block, size_t bytes, const uintptr_t *sp, uintptr_t rbp);
HIDDEN void *judged_memalign(size_t alignment, size_t bytes, const uintptr_t *sp, uintptr_t rbp);
HIDDEN void judged_capture_at(const uintptr_t *sp, uintptr_t rbp);

void *judged_malloc(size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    capture(sp, rbp);
    return __libc_malloc(bytes);
}
void *judged_calloc(size_t n, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    capture(sp, rbp);
    return __libc_calloc(n, bytes);
}
void *judged_realloc(void *block, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    capture(sp, rbp);
    return __libc_realloc(block, bytes);
}
void *judged_memalign(size_t alignment, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    capture(sp, rbp);
    return __libc_memalign(alignment, bytes);
}
void judged_capture_at(const uintptr_t *sp, uintptr_t rbp) {
    capture(sp, rbp);
}
AG_CAPTURE_ENTRY_1(malloc, judged_malloc);
AG_CAPTURE_ENTRY_2(calloc, judged_calloc);
AG_CAPTURE_ENTRY_2(realloc, judged_realloc);
AG_CAPTURE_ENTRY_2(memalign, judged_memalign);
AG_CAPTURE_ENTRY_2(aligned_alloc, judged_memalign);
AG_CAPTURE_ENTRY_0(judged_capture, judged_capture_at);
