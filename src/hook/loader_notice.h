/* loader_notice.h: calls a function around each change of the loader's list of objects.
 *
 * glibc's loader calls an empty function, whose address it publishes for debuggers
 * (_r_debug.r_brk), before and after it loads or unloads any object: by dlopen and dlclose, and for
 * the C library itself (iconv, NSS, locales). A detour of that function (a jump at its start, see
 * detour.h) calls NOTICE. The calling thread is the one that changes the list; it holds the
 * loader's lock. The states that NOTICE gets:
 *
 *     ADDS      objects are about to be mapped
 *     DELETES   all objects are still in the list, and mapped; some are about to be unmapped
 *     IS_WHOLE  the change is complete; nothing changes until the next call */
#ifndef AG_LOADER_NOTICE_H
#define AG_LOADER_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ag_loader_state { AG_LOADER_IS_WHOLE, AG_LOADER_ADDS, AG_LOADER_DELETES };

typedef void ag_loader_notice_fn(enum ag_loader_state state);

/* Installs the detour, or only prepares it after ag_detours_prepare_only. No function of this file
 * removes the detour, so the library that contains NOTICE must not be unloaded before all detours
 * were removed by other code. Returns 0, or a negative errno: there is no such function (musl,
 * statically linked programs), the function is not empty (a debugger has set a breakpoint), or its
 * code cannot be written. */
int ag_loader_notice_install(ag_loader_notice_fn *notice);

/* Whether the loader's function begins with the jump to NOTICE at this moment. */
bool ag_loader_notice_is_written(void);

/* Whether the loader has or had further namespaces (dlmopen, LD_AUDIT). A namespace usually
 * contains a C library of its own. Returns false if that is unknown (glibc before 2.35). */
bool ag_loader_has_namespaces(void);

/* An address in the loader's own code; 0: unknown. */
uintptr_t ag_loader_address(void);

#endif
