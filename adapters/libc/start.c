/* start.c: finds the functions that the agent (allogram's library) calls in the host (the profiled
 * program with its libraries), and starts the recorder: in the agent's constructor, or at an
 * earlier call of one of the agent's functions.
 *
 * The loader calls the agent's constructor before those of all other objects, because the agent is
 * linked with -z initfirst. So libraries that allocate when they are initialized (libstdc++ takes
 * 72,704 bytes for emergencies) are recorded also if the program defines malloc itself. The libc
 * has not set the environment at that time. In glibc before 2.34, libpthread is linked with the
 * same flag, and its constructor is called first. Libraries may then allocate before the agent's
 * constructor is called. So before the start the pointers in ag_next, up to posix_memalign, lead to
 * functions that start the agent and then call the host's function. (The agent's functions that use
 * the other pointers call ag_libc_start first.) After the start all pointers lead to the host's own
 * functions, so calls cost no extra time.
 *
 * To find the host's functions, this file calls only dl_iterate_phdr of the libc, which does not
 * allocate. If the environment names no session (recording), the pointers are filled and the
 * recorder is not started. */
#include "next.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena_sizes.h"
#include "embed/adapter.h"
#include "embed/session_joined.h"
#include "executed_environment.h"
#include "foreign_allocator.h"
#include "heaps.h"
#include "hook/first_environment.h"
#include "hook/import_slot.h"
#include "hook/loaded_objects.h"
#include "hook/next_symbol.h"
#include "record/recorder.h"
#include "record/self_check.h"
#include "static_allocator.h"
#include "unwind/readable_range.h"

/* <gnu/libc-version.h>. Weak: another libc (musl) does not have it, and a missing strong symbol
 * would end the program at its start. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* The offsets of the pointers that entry.S uses. */
#define ASSERT_SLOT(function, slot)                                            \
    _Static_assert(offsetof(struct ag_next_functions, function) == 8 * (slot), \
                   "entry.S uses the same offset")
ASSERT_SLOT(malloc, 0);
ASSERT_SLOT(calloc, 1);
ASSERT_SLOT(realloc, 2);
ASSERT_SLOT(memalign, 4);
ASSERT_SLOT(aligned_alloc, 5);
ASSERT_SLOT(posix_memalign, 6);
ASSERT_SLOT(valloc, 7);
ASSERT_SLOT(pvalloc, 8);

static struct ag_runtime_definition runtime = {.name = "libc", .note = "", .is_hooked = true};

static void find_next_functions(void) {
    struct ag_symbol_place place;
#define AG_NEXT(function, result, arguments)                                                      \
    ag_next.function =                                                                            \
        ag_symbol_find(#function, AG_SYMBOL_NEXT, (const void *)(uintptr_t)ag_libc_start, &place) \
            ? (result(*) arguments)(uintptr_t)place.address                                       \
            : NULL;
#include "next_functions.def"
#undef AG_NEXT
}

/* The function NAME of the program itself; NULL: the program does not define it. */
static void *program_function(const char *name) {
    struct ag_symbol_place place;
    return ag_symbol_find(name, AG_SYMBOL_FIRST, NULL, &place) && place.in_executable
               ? place.address
               : NULL;
}

/* The malloc of a library that the loader searches before the agent, because LD_PRELOAD lists it
 * before the agent: calls of malloc do not reach the agent. NULL: there is no such library. */
static const void *malloc_before_agent(void) {
    struct ag_symbol_place place;
    return ag_symbol_find("malloc", AG_SYMBOL_FIRST, (const void *)(uintptr_t)ag_libc_start,
                          &place) &&
                   !place.in_executable && !place.is_behind_self
               ? place.address
               : NULL;
}

static void find_program_functions(void) {
    ag_program.malloc = (void *(*)(size_t))(uintptr_t)program_function("malloc");
    ag_program.realloc = (void *(*)(void *, size_t))(uintptr_t)program_function("realloc");
    ag_program.free = (void (*)(void *))(uintptr_t)program_function("free");
}

/* The self-check compares each stack with the stack that a second unwinder, the function
 * allogram_judge, finds. The self-check is on if an object that defines this function is preloaded
 * together with the agent. */
static void start_self_check(void) {
    struct ag_symbol_place judge;
    if (ag_symbol_find("allogram_judge", AG_SYMBOL_FIRST, NULL, &judge)) {
        ag_self_check_start((ag_judge_fn *)(uintptr_t)judge.address);
    }
}

/* ---- allocations that are not recorded ---- */

/* If a library is opened with RTLD_DEEPBIND, the loader searches the library and its dependencies
 * before the agent. Then calls of malloc reach the libc, and are not recorded. */
static struct {
    uintptr_t functions[4]; /* the host's functions, which such a library calls directly */
    size_t n_first;         /* number of objects that were loaded at the start */
    _Atomic bool is_reported;
} unrecorded_calls;

static const struct ag_runtime_definition deep_libc = {
    .name = "libc (RTLD_DEEPBIND)",
    .version = "",
    .note = "calls of malloc in a library that was opened with RTLD_DEEPBIND "
            "go directly to the C library and are not recorded"};

/* Other names of glibc's functions. The agent does not interpose these names, because a library may
 * define a malloc that calls __libc_malloc: the agent would pass this call on to the malloc of that
 * library, which would make the same call again. */
static const char *const inner_names[] = {"__libc_malloc", "__libc_calloc", "__libc_realloc",
                                          "__libc_memalign", "__libc_free"};
static const struct ag_runtime_definition inner_libc = {
    .name = "libc (__libc_malloc)",
    .version = "",
    .note = "calls of __libc_malloc, __libc_calloc, __libc_realloc, __libc_memalign and "
            "__libc_free are not recorded"};

static int count_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)info;
    (void)size;
    ++*(size_t *)context;
    return 0;
}

/* Called at the start, when ag_next has the host's functions. */
static void note_unrecorded_functions(void) {
    unrecorded_calls.functions[0] = (uintptr_t)ag_next.malloc;
    unrecorded_calls.functions[1] = (uintptr_t)ag_next.calloc;
    unrecorded_calls.functions[2] = (uintptr_t)ag_next.realloc;
    unrecorded_calls.functions[3] = (uintptr_t)ag_next.free;
    (void)ag_objects_visit(count_object, &unrecorded_calls.n_first);
}

static void report_unrecorded(void) {
    const struct ag_announcement announcement = {.runtime = &deep_libc};
    ag_libc_report_namespaces();
    if (unrecorded_calls.n_first > 0 && /* the recorder was started */
        !atomic_load_explicit(&unrecorded_calls.is_reported, memory_order_relaxed) &&
        ag_imports_lead_to(unrecorded_calls.functions, AG_ARRAY_SIZE(unrecorded_calls.functions),
                           unrecorded_calls.n_first) &&
        !atomic_exchange_explicit(&unrecorded_calls.is_reported, true, memory_order_relaxed)) {
        ag_recorder_announce(&announcement);
    }
}

/* Called at the end, when the calls are bound; it takes about a millisecond in a program with
 * hundreds of libraries. */
static void report_inner_names(void) {
    if (unrecorded_calls.n_first > 0 &&
        ag_imports_have(inner_names, AG_ARRAY_SIZE(inner_names), "malloc")) {
        ag_recorder_announce(&(const struct ag_announcement){.runtime = &inner_libc});
    }
}

/* Valgrind executes the program, and translates calls of malloc and its relatives in any object,
 * also the agent, into calls of functions of its own. (Its tools none, callgrind and cachegrind do
 * not.) Valgrind preloads a library of this name. */
static int is_of_valgrind(struct dl_phdr_info *object, size_t bytes, void *context) {
    (void)bytes;
    (void)context;
    return object->dlpi_name && strstr(object->dlpi_name, "/vgpreload_") != NULL;
}

static bool has_reached_agent;

static void *note_call_of_malloc(size_t bytes) {
    (void)bytes;
    has_reached_agent = true;
    return NULL; /* so the agent's malloc has nothing to record */
}

/* Whether the agent's malloc is executed if it is called. Called before the program has a second
 * thread. */
static bool malloc_reaches_agent(void) {
    void *(*const host_malloc)(size_t bytes) = ag_next.malloc;
    void *(*volatile call)(size_t bytes) = malloc; /* volatile: the call must happen */
    ag_next.malloc = note_call_of_malloc;
    void *block = call(1);
    ag_next.malloc = host_malloc;
    free(block); /* NULL, or a block of the other tool, which has replaced free too */
    return has_reached_agent;
}

static struct ag_static_answer own_allocator;

static void note_own_allocator(void) {
    runtime.is_hooked = true;
    runtime.note = own_allocator.note;
    ag_record_runtime(&runtime);
}

static void start_recording(void) {
    const char *path = ag_first_environment_value("ALLOGRAM_SESSION");
    const bool is_under_valgrind = ag_objects_visit(is_of_valgrind, NULL) != 0;
    if (is_under_valgrind) {
        ag_readable_under_valgrind();
    }
    start_self_check();
    if (!path || !path[0] || ag_recorder_start(path) < 0) {
        ag_recorder_turn_off(); /* `run` sees that no process registered and says so */
        return;
    }
    note_unrecorded_functions();
    ag_recorder_watch_images(report_unrecorded);
    runtime.version = gnu_get_libc_version ? gnu_get_libc_version() : "";
    const void *directly_called_malloc = ag_foreign_allocator_lead();
    struct ag_static_answer *own = &own_allocator;
    const void *earlier_malloc = malloc_before_agent();
    ag_static_allocator_hook(earlier_malloc ? earlier_malloc : directly_called_malloc, own);
    const bool is_interposed = directly_called_malloc && !earlier_malloc && !ag_program.malloc;
    /* n_program > 0: is_hooked is true if some calls reach the agent without a detour; otherwise
     * note_own_allocator sets it at the first call of a detour. n_program < 0: is_hooked is
     * false. */
    runtime.is_hooked = own->n_program == 0 || (own->n_program > 0 && is_interposed);
    if (own->n_program == 0) { /* the program does not define malloc */
        ag_libc_arenas_find();
    }
    if (own->n_program >= 0) {
        ag_static_allocator_hook_others(own);
    }
    if (own->n_others > 0 || is_interposed) {
        ag_foreign_allocator_guard();
    }
    if (own->n_program > 0 && !is_interposed) {
        runtime.note = "no call of the program's own allocator was seen; calls that the "
                       "compiler inlined are not recorded";
        ag_static_allocator_on_first_call(note_own_allocator);
    } else if (earlier_malloc && own->n_program == 0) {
        runtime.is_hooked = false;
        runtime.note = "calls of malloc reach a library that is preloaded before allogram's; set "
                       "LD_PRELOAD for allogram run instead";
    } else if (own->n_program == 0 && !malloc_reaches_agent()) {
        runtime.is_hooked = false;
        runtime.note =
            is_under_valgrind
                ? "Valgrind replaces malloc by a function of its own; record the program "
                  "without Valgrind, or with its tool none, callgrind or cachegrind"
                : "another tool replaces malloc by a function of its own";
    } else {
        runtime.note = own->note;
    }
    ag_libc_announce(&runtime);
    ag_libc_report_namespaces();
    ag_host_join();
    ag_adapters_attach(ag_first_environment_value("ALLOGRAM_ADAPTERS"));
}

AG_COLD void ag_libc_start(void) {
    static _Atomic int is_started;
    if (atomic_exchange_explicit(&is_started, 1, memory_order_acq_rel)) {
        return;
    }
    const int host_errno = errno;
    find_next_functions();
    find_program_functions();
    ag_agent_file_find();
    char **const host_environment = __environ;
    if (!host_environment) {
        __environ = ag_first_environment(); /* adapters call functions of the runtimes, and these
                                             * may call getenv */
    }
    start_recording();
    if (!host_environment) {
        __environ = NULL; /* the libc sets it later */
    }
    errno = host_errno;
}

__attribute__((constructor)) static void start_with_the_program(void) {
    ag_libc_start();
}

bool ag_libc_has_last_words(void) {
    return ag_adapters_are_there();
}

void ag_libc_end(void) {
    static _Atomic uint32_t ended; /* the pid of the process that called this function last; a
                                    * forked child has another pid */
    const uint32_t pid = ag_libc_has_last_words() ? ag_recorder.pid : 0;
    if (pid != 0 && atomic_exchange_explicit(&ended, pid, memory_order_relaxed) != pid) {
        ag_adapters_end();
    }
    ag_recorder_exiting();
}

__attribute__((destructor)) static void note_the_exit(void) {
    ag_libc_arenas_report();
    report_unrecorded();
    report_inner_names();
    ag_libc_end();
}

/* ---- before the start: start the agent, then call the host's function ---- */

/* PARAMETERS and ARGUMENTS are given in parentheses. */
#define FIRST(name, result, parameters, arguments) \
    static result first_##name parameters {        \
        ag_libc_start();                           \
        return ag_next.name arguments;             \
    }

FIRST(malloc, void *, (size_t bytes), (bytes))
FIRST(calloc, void *, (size_t count, size_t bytes), (count, bytes))
FIRST(realloc, void *, (void *block, size_t bytes), (block, bytes))
FIRST(memalign, void *, (size_t alignment, size_t bytes), (alignment, bytes))
FIRST(aligned_alloc, void *, (size_t alignment, size_t bytes), (alignment, bytes))
FIRST(posix_memalign, int, (void **ret_block, size_t alignment, size_t bytes),
      (ret_block, alignment, bytes))

static void first_free(void *block) {
    ag_libc_start();
    ag_next.free(block);
}

struct ag_next_functions ag_next = {
    .malloc = first_malloc,
    .calloc = first_calloc,
    .realloc = first_realloc,
    .free = first_free,
    .memalign = first_memalign,
    .aligned_alloc = first_aligned_alloc,
    .posix_memalign = first_posix_memalign,
};
