/* loader_notice.h: being called around each change of the loader's list of objects.
 *
 * glibc's loader calls an empty function, whose address it gives to debuggers (_r_debug.r_brk),
 * before and after it loads or unloads anything for anybody: dlopen and dlclose, and what the C
 * library loads for itself (iconv, NSS, locales). A detour of that function is all it takes. Called
 * with the loader's lock held, by the thread that changes the list:
 *
 *     ADDS      objects are going to be mapped
 *     DELETES   all objects are in the list still, and mapped; some are going to be unmapped
 *     IS_WHOLE  the list and the memory are what they are until the next call */
#ifndef AG_LOADER_NOTICE_H
#define AG_LOADER_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ag_loader_state { AG_LOADER_IS_WHOLE, AG_LOADER_ADDS, AG_LOADER_DELETES };

typedef void ag_loader_notice_fn(enum ag_loader_state state);

/* NOTICE is called from here on; in a program that runs, from when the prepared detours are written
 * (detour.h). For the life of the calling object, which must not be unloaded before the detour is
 * taken out. 0, or a negative errno: there is no such function (musl, programs that are linked
 * statically), it is not empty (a debugger's breakpoint), or its code cannot be written. */
int ag_loader_notice_install(ag_loader_notice_fn *notice);

/* Does the loader's function lead to NOTICE, as of now? */
bool ag_loader_notice_is_written(void);

/* Where the loader's own code lies: an address in it; 0: not known. */
uintptr_t ag_loader_address(void);

#endif
