/* next.h: the functions that the agent (allogram's library in the program) calls in the host, which
 * is the profiled program with its libraries. */
#ifndef AG_LIBC_NEXT_H
#define AG_LIBC_NEXT_H

#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/compiler.h"

enum ag_libc_heap { HEAP_MALLOC = 0, HEAP_NEW = 1, HEAP_MAPPINGS = 2 };

enum ag_libc_via {
#define AG_VIA(NAME, text, heap) VIA_##NAME,
#include "vias.def"
#undef AG_VIA
    VIA_COUNT
};

/* Filled by ag_libc_start; in the attached agent, the pointers up to pvalloc are filled by
 * attached.c. Before ag_libc_start, the pointers up to posix_memalign lead to functions that start
 * the agent and then call the host's function; the other pointers are NULL. */
struct ag_next_functions {
#define AG_NEXT(function, result, arguments) result(*function) arguments;
#include "next_functions.def"
#undef AG_NEXT
};
extern struct ag_next_functions ag_next AG_HIDDEN;

/* The functions of a program that defines malloc itself. Such a program may call related functions
 * that only libraries define: reallocarray, the operators of C++. These library functions call the
 * program's malloc, realloc and free, and so do the agent's functions that replace them. A pointer
 * is NULL if the program does not define the function. */
struct ag_program_functions {
    void *(*malloc)(size_t bytes);
    void *(*realloc)(void *block, size_t bytes);
    void (*free)(void *block);
};
extern struct ag_program_functions ag_program AG_HIDDEN;

/* Finds the functions of ag_next and starts recording, once; later calls return at once. Runs in
 * the agent's constructor, or before it, in the first call of one of the agent's functions. Does
 * nothing in the attached agent. */
void ag_libc_start(void);

/* Called when the process ends by exit and, if ag_libc_has_last_words returns true, when it ends by
 * _exit, _Exit or quick_exit. Notes that the process exits, and records what the runtimes counted
 * themselves; only the first call in a process records this. Callable from any thread and signal
 * handler. */
void ag_libc_end(void);
/* Whether ag_libc_end has anything to write. */
bool ag_libc_has_last_words(void);

/* Records the free of a block and frees it. Call this function as a tail call from a function
 * without a frame, so that the recorded stack begins at that function's caller. Defined in
 * malloc_family.c. */
void ag_free_slowly(void *block, enum ag_libc_via via);

#endif
