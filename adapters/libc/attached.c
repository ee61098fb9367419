/* attached.c: the agent (allogram's library) in a process that is already running. The agent
 * installs hooks by detours, jumps at the start of functions, and removes them again.
 *
 * 1. The agent uses detours, not the import slots through which images (loaded objects) call
 * malloc. A program may read the address of free from such a slot and keep it (a destructor in a
 * struct). After the agent is removed, that address would be invalid. A detour changes the code at
 * malloc's address and not the address. So a detour catches calls from every image, from images
 * that dlopen loads later, through old function pointers, and from the libc itself. It leaves no
 * address of the agent in the program's data. The agent only prepares the detours; `allogram
 * attach` (the tool), which can stop the threads, writes the bytes (hook/attachment.h).
 *
 * 2. An original is a hooked function without its detour; the agent calls it through a copy of the
 * instructions that the detour replaced. The originals may call each other by their public
 * addresses (realloc(NULL, n) calls malloc; a realloc whose mremap fails calls malloc and free),
 * and those calls reach the agent. So an original that may do this is called with recording
 * suspended in the thread. Calls that the allocator itself makes are recognized by the address of
 * the caller (attached_entry.S).
 *
 * Allocators other than the C library's have entries of their own: static_allocator.c.
 *
 * 3. C++ operators are recorded as the malloc that they call. Mappings of the program are not
 * recorded: in a libc, mmap is also the function that malloc itself calls.
 *
 * 4. The agent exports only the names that the tool needs, so no symbol of the process ever binds
 * to it. The agent has no constructor, so loading it changes nothing.
 *
 * 5. There are two builds of the agent. The one with adapters, the code for language runtimes
 * (attached_runtimes.c), is for processes that have a runtime. The other one (attached_alone.c)
 * loads in half the time. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attached.h"
#include "base/join_text.h"
#include "base/own_memory.h"
#include "base/raw_syscall.h"
#include "heaps.h"
#include "hook/detour.h"
#include "hook/next_symbol.h"
#include "next.h"
#include "record/recorder.h"
#include "static_allocator.h"

extern const char *gnu_get_libc_version(void); /* <gnu/libc-version.h> */

AG_EXPORT int ag_agent_attach(void);
AG_EXPORT int ag_agent_detach(void);

struct ag_attachment ag_agent_attachment = {
    .version = AG_ATTACHMENT_VERSION, .session_fd = -1, .lock_fd = -1};
struct ag_next_functions ag_next;
_Static_assert(offsetof(struct ag_next_functions, free) == 8 * 3,
               "attached_entry.S uses the same offset");

/* Read by attached_entry.S: the address and size of the code of the libc's allocator. The size is 0
 * if the code was not found. */
extern uintptr_t ag_own_low AG_HIDDEN, ag_own_bytes AG_HIDDEN;
uintptr_t ag_own_low, ag_own_bytes;

static struct ag_runtime_definition runtime = {.name = "libc", .note = "", .is_hooked = true};

/* ---- the originals, called with recording suspended ---- */

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*_exit)(int);
} originals;

/* PARAMETERS and ARGUMENTS are given in parentheses. */
#define SUSPENDED(name, result, parameters, arguments) \
    static result suspended_##name parameters {        \
        const uintptr_t gate = ag_record_suspend();    \
        result answer = originals.name arguments;      \
        ag_record_resume(gate);                        \
        return answer;                                 \
    }

SUSPENDED(calloc, void *, (size_t count, size_t bytes), (count, bytes))
SUSPENDED(realloc, void *, (void *before, size_t bytes), (before, bytes))
SUSPENDED(memalign, void *, (size_t alignment, size_t bytes), (alignment, bytes))
SUSPENDED(aligned_alloc, void *, (size_t alignment, size_t bytes), (alignment, bytes))
SUSPENDED(posix_memalign, int, (void **ret_block, size_t alignment, size_t bytes),
          (ret_block, alignment, bytes))
SUSPENDED(valloc, void *, (size_t bytes), (bytes))
SUSPENDED(pvalloc, void *, (size_t bytes), (bytes))

/* Records that the process ends by _exit. A process that ends without this record, and without the
 * record that a destructor writes at exit, was killed by a signal. */
static void say_and_exit(int status) {
    /* only in the process itself, not in a child of vfork: see lifecycle_end in lifecycle.c */
    if (ag_attached_runtimes_are_there() &&
        (uint32_t)ag_syscall1(SYS_getpid, 0) == ag_recorder.pid) {
        ag_attached_runtimes_end();
    }
    ag_recorder_exits_now();
    originals._exit(status);
}

/* The agent's functions, from entry.S and attached_entry.S. */
extern const uint8_t ag_entry_malloc[] AG_HIDDEN, ag_entry_calloc[] AG_HIDDEN,
    ag_entry_realloc[] AG_HIDDEN, ag_entry_attached_free[] AG_HIDDEN, ag_entry_memalign[] AG_HIDDEN,
    ag_entry_aligned_alloc[] AG_HIDDEN, ag_entry_posix_memalign[] AG_HIDDEN,
    ag_entry_valloc[] AG_HIDDEN, ag_entry_pvalloc[] AG_HIDDEN;

/* The via is the allocation function that the trace names for a block. If two names belong to one
 * function, the via of the first of the two rows is used. */
static const struct {
    const char *name;
    const void *entry;
    void **original;
    bool is_needed; /* if this function cannot be hooked, nothing is recorded */
} hooked[] = {
    {"malloc", ag_entry_malloc, (void **)&originals.malloc, true},
    {"free", ag_entry_attached_free, (void **)&originals.free, true},
    {"calloc", ag_entry_calloc, (void **)&originals.calloc, true},
    {"realloc", ag_entry_realloc, (void **)&originals.realloc, true},
    {"memalign", ag_entry_memalign, (void **)&originals.memalign, false},
    {"aligned_alloc", ag_entry_aligned_alloc, (void **)&originals.aligned_alloc, false},
    {"posix_memalign", ag_entry_posix_memalign, (void **)&originals.posix_memalign, false},
    {"valloc", ag_entry_valloc, (void **)&originals.valloc, false},
    {"pvalloc", ag_entry_pvalloc, (void **)&originals.pvalloc, false},
    {"_exit", (const void *)(uintptr_t)say_and_exit, (void **)&originals._exit, false},
};
enum { N_HOOKED = AG_ARRAY_SIZE(hooked) };
static struct ag_detour detours[N_HOOKED];
_Static_assert((int)AG_ATTACHMENT_CODE_BYTES == (int)AG_DETOUR_BYTES &&
                   (int)AG_ATTACHMENT_SITES == (int)AG_DETOURS_PREPARED_MOST &&
                   (int)AG_ATTACHMENT_PAGES == (int)AG_DETOUR_PAGES_MOST,
               "the limits of an attachment are those of prepared detours");

static void write_note(const char *first, const char *name, const char *second) {
    const char *const parts[] = {first, name, second, NULL};
    ag_join_text(ag_agent_attachment.note, sizeof(ag_agent_attachment.note), parts);
}

static bool is_c_library(const char *path) {
    static const char name[] = "libc.so";
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, name, sizeof(name) - 1) == 0;
}

static bool is_hooked_already(const void *const *targets, size_t n_targets, const void *target) {
    for (size_t i = 0; i < n_targets; i++) {
        if (targets[i] == target) {
            return true; /* the function is hooked already, under another name */
        }
    }
    return false;
}

static struct ag_static_answer answer;

static void note_answer(void) {
    if (answer.note[0] != '\0') {
        write_note(answer.note, "", "");
        runtime.note = ag_agent_attachment.note;
    }
}

/* Hooks a malloc that is not the C library's, with its relatives. Callers in the same object as
 * such a malloc may rely on more registers than the ABI keeps, so its detours lead to other entries
 * (static_allocator.c). Returns whether there is such a malloc. *ret_r: 0, or -ENOTSUP with the
 * reason in the note. */
static bool hook_own_allocator(int *ret_r) {
    struct ag_symbol_place place = {.address = NULL};
    const bool is_libc =
        ag_symbol_find("malloc", AG_SYMBOL_FIRST, NULL, &place) && is_c_library(place.image_name);
    ag_static_allocator_hook(is_libc ? NULL : place.address, &answer);
    *ret_r = answer.n_program < 0 ? -ENOTSUP : 0;
    note_answer();
    return !is_libc;
}

/* Returns 0, or -ENOTSUP: a needed function cannot be hooked, and the note has the reason; or no
 * function was found. */
static int hook_all(void) {
    const void *targets[N_HOOKED];
    size_t n_targets = 0;
    int own_r;
    const bool has_own = hook_own_allocator(&own_r);
    if (own_r < 0) {
        return own_r;
    }
    for (size_t i = 0; i < N_HOOKED; i++) {
        struct ag_symbol_place place;
        if (has_own && hooked[i].entry != (const void *)(uintptr_t)say_and_exit) {
            continue;
        }
        if (!ag_symbol_find(hooked[i].name, AG_SYMBOL_FIRST, NULL, &place) ||
            is_hooked_already(targets, n_targets, place.address)) {
            continue;
        }
        targets[n_targets++] = place.address;
        const int r = ag_detour_install(&detours[i], place.address, place.bytes,
                                        (void *)(uintptr_t)hooked[i].entry, hooked[i].original);
        if (r < 0) {
            write_note(hooked[i].name, ": ", detours[i].reason);
            if (hooked[i].is_needed) {
                return -ENOTSUP;
            }
        }
    }
    if (n_targets == 0) {
        return -ENOTSUP;
    }
    ag_static_allocator_hook_others(&answer);
    note_answer();
    return 0;
}

/* Lists what the tool needs: the bytes that it has to write, the pages of the detours' code, and
 * where the recorder's state is. */
static void fill_sites(void) {
    struct ag_attachment *attachment = &ag_agent_attachment;
    struct ag_detour *const *prepared;
    uintptr_t pages[AG_DETOUR_PAGES_MOST];
    const size_t n = ag_detours_prepared(&prepared);
    for (size_t i = 0; i < n; i++) {
        if (prepared[i]->place != NULL) {
            struct ag_attachment_site *site = &attachment->sites[attachment->n_sites++];
            site->place = (uintptr_t)prepared[i]->place;
            memcpy(site->before, prepared[i]->saved, AG_DETOUR_BYTES);
            memcpy(site->after, prepared[i]->jump, AG_DETOUR_BYTES);
        }
    }
    attachment->n_pages = (uint32_t)ag_detours_pages(pages);
    for (size_t i = 0; i < attachment->n_pages; i++) {
        attachment->pages[i] =
            (struct ag_attachment_range){pages[i], pages[i] + AG_DETOUR_PAGE_BYTES};
    }
    attachment->state = (uintptr_t)&ag_recorder.state;
    attachment->off_value = AG_RECORDER_OFF;
}

static void fill_next(void) {
    ag_next.malloc = originals.malloc;
    ag_next.free = originals.free;
    ag_next.calloc = suspended_calloc;
    ag_next.realloc = suspended_realloc;
    ag_next.memalign = suspended_memalign;
    ag_next.aligned_alloc = suspended_aligned_alloc;
    ag_next.posix_memalign = suspended_posix_memalign;
    ag_next.valloc = suspended_valloc;
    ag_next.pvalloc = suspended_pvalloc;
}

static int join_session(void) {
    struct ag_attachment *attachment = &ag_agent_attachment;
    if (attachment->session_fd < 0) {
        return ag_recorder_start(attachment->session_path);
    }
    const int fd = attachment->session_fd, lock_fd = attachment->lock_fd;
    attachment->session_fd = attachment->lock_fd = -1;
    return ag_recorder_start_with(fd, lock_fd);
}

/* Closes the descriptors that were passed for join_session, if it was not called. */
static void close_passed(void) {
    const int32_t fds[] = {ag_agent_attachment.session_fd, ag_agent_attachment.lock_fd};
    for (size_t i = 0; i < AG_ARRAY_SIZE(fds); i++) {
        if (fds[i] >= 0) {
            (void)ag_syscall1(SYS_close, fds[i]); /* nothing was written through it */
        }
    }
    ag_agent_attachment.session_fd = ag_agent_attachment.lock_fd = -1;
}

static int attached_start(void) {
    const char *reason = "";
    ag_detours_prepare_only();
    int r = hook_all();
    if (r < 0) {
        return r;
    }
    fill_next();
    ag_own_low = ag_agent_attachment.own_low;
    ag_own_bytes = ag_agent_attachment.own_bytes;
    r = join_session();
    if (r < 0) {
        write_note("the session's live file cannot be used", "", "");
        return r;
    }
    runtime.version = gnu_get_libc_version();
    ag_libc_announce(&runtime);
    ag_libc_report_namespaces();
    ag_attached_runtimes_begin();
    ag_recorder_watch_images(ag_libc_report_namespaces);
    r = ag_detours_seal(&reason);
    if (r < 0) {
        write_note("malloc: ", reason, "");
        return r;
    }
    fill_sites();
    return 0;
}

static void give_back(void) {
    ag_recorder_unmap();
    ag_detours_drop();
    ag_own_memory_give_back();
}

int ag_agent_attach(void) {
    const int host_errno = errno;
    const int r = attached_start();
    close_passed();
    if (r < 0) {
        give_back();
    }
    errno = host_errno;
    return r;
}

int ag_agent_detach(void) {
    const int host_errno = errno;
    ag_attached_runtimes_end();
    ag_recorder_leave();
    give_back();
    errno = host_errno;
    return 0;
}

/* malloc_family.c calls this to start. In this agent `allogram attach` has started the recorder
 * already. */
void ag_libc_start(void) {
}

__attribute__((destructor)) static void note_the_exit(void) {
    if (ag_attached_runtimes_are_there()) {
        ag_attached_runtimes_end();
    }
    ag_recorder_exiting();
}
