/* detour.h: a function of this process calls another one instead, and can still be called itself.
 *
 *     target:      jmp near page --------> near page:  jmp replacement
 *                  (rest of the function)              the overwritten instructions <---- original
 *                       ^------------------------------jmp rest
 *
 * For allocators that are linked into the program itself, where no symbol is left to stand in front
 * of. Meant for the start of a process: the bytes change in an order that another thread can run
 * into, but a thread that stands between the overwritten instructions at that moment would go on in
 * the middle of a jump. Calls nothing of libc, so it cannot allocate and can run before anything is
 * initialised. */
#ifndef AG_DETOUR_H
#define AG_DETOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_DETOUR_BYTES = 5 };

struct ag_detour {  /* all zero: not installed */
    uint8_t *place; /* of the jump: the target, behind its endbr64 when it has one */
    uint8_t saved[AG_DETOUR_BYTES]; /* what stood there */
    uint8_t jump[AG_DETOUR_BYTES];
    void *page;         /* holds the copied instructions */
    const char *reason; /* after a failure: why, for people; a constant */
};

/* Makes TARGET, a function of TARGET_BYTES (0: unknown, then jumps back into its beginning go
 * unseen), call REPLACEMENT. *ret_original is set before the first call can arrive. 0, or a
 * negative errno with detour->reason, and nothing changed.
 *
 * Frames: a call through *ret_original runs a few instructions in the page, where no unwinder knows
 * a rule; then it is in the target, where all of its rules hold. */
int ag_detour_install(struct ag_detour *detour, void *target, size_t target_bytes,
                      void *replacement, void **ret_original);

/* The same of a function whose callers may rely on more than the ABI keeps: ENTER is code that
 * finds a frame with DATUM (kept_call.h). */
int ag_detour_install_kept(struct ag_detour *detour, void *target, size_t target_bytes,
                           const void *enter, uintptr_t datum, void **ret_original);

/* The same of a function that does nothing (a return and the padding behind it), from its first
 * byte on: nothing is left to be called, and no page is needed where REPLACEMENT is near.
 * -ENOTSUP: it is not empty. */
int ag_detour_install_empty(struct ag_detour *detour, void *target, void *replacement);
/* Its jump stands where it was written, now. */
bool ag_detour_is_written(const struct ag_detour *detour);

/* Puts the bytes back; a detour that is not installed is left alone. The page stays, since a call
 * may be in it: one page for each detour of the process, ever. -EBUSY: somebody else changed the
 * bytes since; they are left as they are. */
int ag_detour_remove(struct ag_detour *detour);

/* In a program that runs: from here on install does all that can be done while other threads run,
 * and remove undoes that; what is left is to write the jumps when nobody stands in the bytes that
 * they replace, and that is for who can stop the threads (from outside: hook/attachment.h). For one
 * thread; structs stay where they are. */
enum { AG_DETOURS_PREPARED_MOST = 112, AG_DETOUR_PAGES_MOST = 6, AG_DETOUR_PAGE_BYTES = 4096 };
void ag_detours_prepare_only(void);
/* All that are wanted have been prepared: their pages become executable. */
int ag_detours_seal(const char **ret_reason);
/* Those that were prepared, and removed since where place is NULL. Returns how many. */
size_t ag_detours_prepared(struct ag_detour *const **ret_detours);
/* The pages, AG_DETOUR_PAGE_BYTES each. Returns how many. */
size_t ag_detours_pages(uintptr_t ret_pages[AG_DETOUR_PAGES_MOST]);
/* Unmaps the pages: nobody is in them, no jump leads there. */
void ag_detours_drop(void);

#endif
