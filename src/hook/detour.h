/* detour.h: redirects calls of a function of this process to another one; the original can still be
 * called.
 *
 *     target:      jmp near page --------> near page:  jmp replacement
 *                  (rest of the function)              the overwritten instructions <---- original
 *                       ^------------------------------jmp rest
 *
 * This is for allocators that are linked into the program itself, where no symbol can be
 * interposed. Install detours at the start of a process: the bytes change in an order that is safe
 * for a thread that arrives meanwhile, but a thread that is between the overwritten instructions
 * would continue in the middle of a jump. The code calls no function of libc, so it cannot allocate
 * and can run before anything is initialized. */
#ifndef AG_DETOUR_H
#define AG_DETOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_DETOUR_BYTES = 5 };

struct ag_detour {  /* all zero: not installed */
    uint8_t *place; /* address of the jump: the target, after its endbr64 if it has one */
    uint8_t saved[AG_DETOUR_BYTES]; /* the overwritten bytes */
    uint8_t jump[AG_DETOUR_BYTES];
    void *page;         /* holds the copied instructions */
    const char *reason; /* after a failure: the reason as text; a constant */
};

/* Redirects calls of TARGET, a function of TARGET_BYTES (0: unknown; then jumps back into its first
 * bytes are not detected), to REPLACEMENT. *ret_original is set before the first call can arrive.
 * Returns 0, or a negative errno with detour->reason, and nothing is changed.
 *
 * A call through *ret_original executes a few instructions in the page, for which no unwinder has a
 * rule; then it continues in the target, where all of the target's rules hold. */
int ag_detour_install(struct ag_detour *detour, void *target, size_t target_bytes,
                      void *replacement, void **ret_original);

/* As ag_detour_install, for a function whose callers may rely on more than the ABI guarantees:
 * ENTER is entry code, which finds DATUM in the frame (kept_call.h). */
int ag_detour_install_kept(struct ag_detour *detour, void *target, size_t target_bytes,
                           const void *enter, uintptr_t datum, void **ret_original);

/* As ag_detour_install, for a function that does nothing (a return, followed by padding): there is
 * no original to call, and no page is needed if REPLACEMENT is near. -ENOTSUP: the function is not
 * empty. */
int ag_detour_install_empty(struct ag_detour *detour, void *target, void *replacement);
/* Whether the jump is in place at this moment. */
bool ag_detour_is_written(const struct ag_detour *detour);

/* Restores the bytes; a detour that is not installed is left alone. The page stays mapped, because
 * a call may be in it: one page for each detour that the process ever had. -EBUSY: other code has
 * changed the bytes since; they are left as they are. */
int ag_detour_remove(struct ag_detour *detour);

/* For a running program: from now on install does everything that is safe while other threads run,
 * and remove undoes that. Another process, which can stop the threads, must write the jumps when no
 * thread is in the bytes that they replace (hook/attachment.h). Call these functions from one
 * thread only, and do not move a struct ag_detour. */
enum { AG_DETOURS_PREPARED_MOST = 112, AG_DETOUR_PAGES_MOST = 6, AG_DETOUR_PAGE_BYTES = 4096 };
void ag_detours_prepare_only(void);
/* Called when all detours have been prepared: makes their pages executable. */
int ag_detours_seal(const char **ret_reason);
/* The prepared detours; `place` is NULL in those that were removed. Returns their number. */
size_t ag_detours_prepared(struct ag_detour *const **ret_detours);
/* The pages, AG_DETOUR_PAGE_BYTES each. Returns their number. */
size_t ag_detours_pages(uintptr_t ret_pages[AG_DETOUR_PAGES_MOST]);
/* Unmaps the pages. Call it when no thread is in them and no jump leads there. */
void ag_detours_drop(void);

#endif
