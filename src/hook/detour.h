/* detour.h: redirects calls of a function of this process (the target) to another function (the
 * replacement). The original function can still be called.
 *
 *     target:      jmp near page --------> near page:  jmp replacement
 *                  (rest of the function)              the overwritten instructions <---- original
 *                       ^------------------------------jmp rest
 *
 * This is for allocators that are linked into the program itself, where no symbol can be
 * interposed. Install detours at the start of a process. The bytes are changed in an order that is
 * safe for a thread that calls the target meanwhile. But a thread that is interrupted between two
 * of the overwritten instructions would continue in the middle of the jump. The code of detour.c
 * calls no function of libc, so it cannot allocate, and it can run before libc is initialized. */
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
    void *page;         /* contains the copied instructions and the jump to the replacement */
    const char *reason; /* after a failure: the reason as text; a constant */
};

/* Redirects calls of TARGET, a function of TARGET_BYTES (0: unknown; then jumps back into its first
 * bytes are not detected), to REPLACEMENT. *ret_original, through which the original can be called,
 * is set before the replacement can be called. Returns 0, or a negative errno with detour->reason;
 * then the target is not changed.
 *
 * A call through *ret_original executes a few instructions in the page, for which there is no
 * unwind information. Then it continues in the target, where the unwind information of the target
 * is valid. */
int ag_detour_install(struct ag_detour *detour, void *target, size_t target_bytes,
                      void *replacement, void **ret_original);

/* As ag_detour_install, for a function whose callers may rely on registers that the ABI lets a
 * function change. The detour jumps to ENTER, assembly code that saves all registers into a frame
 * on the stack (kept_call.h). ENTER finds the word DATUM in this frame. */
int ag_detour_install_kept(struct ag_detour *detour, void *target, size_t target_bytes,
                           const void *enter, uintptr_t datum, void **ret_original);

/* As ag_detour_install, for a target that does nothing (a return, followed by padding). There is no
 * original to call, and no page is needed if a near jump reaches REPLACEMENT. -ENOTSUP: the
 * function is not empty. */
int ag_detour_install_empty(struct ag_detour *detour, void *target, void *replacement);
/* Whether the target begins with the jump of this detour at this moment. */
bool ag_detour_is_written(const struct ag_detour *detour);

/* Some functions only jump to another function through their object's GOT: in glibc 2.43,
 * free_sized is "jmp free@plt". Returns the address to which the function TARGET jumps in this way,
 * or 0 if TARGET does anything else. An object that the loader binds lazily has another address in
 * its GOT until its first call of the function. */
uintptr_t ag_detour_passed_on(const void *target);

/* Restores the overwritten bytes. Does nothing if the detour is not installed. The page stays
 * mapped, because a thread may be executing its code; so each detour that the process ever had
 * costs a page. -EBUSY: other code has changed the bytes of the jump meanwhile; they are not
 * restored. */
int ag_detour_remove(struct ag_detour *detour);

/* For a program whose threads already run: after ag_detours_prepare_only, the install functions
 * prepare detours but do not write the jumps, and ag_detour_remove removes a detour from the
 * prepared ones. Another process, which can stop the threads, must write the jumps when no thread
 * is in the bytes that they replace (hook/attachment.h). Call these functions from one thread only,
 * and do not move a struct ag_detour. */
enum { AG_DETOURS_PREPARED_MOST = 112, AG_DETOUR_PAGES_MOST = 6, AG_DETOUR_PAGE_BYTES = 4096 };
void ag_detours_prepare_only(void);
/* Makes the pages of all detours executable. Call it when all detours have been prepared. */
int ag_detours_seal(const char **ret_reason);
/* The prepared detours; `place` is NULL in those that were removed. Returns their number. */
size_t ag_detours_prepared(struct ag_detour *const **ret_detours);
/* The pages, AG_DETOUR_PAGE_BYTES each. Returns their number. */
size_t ag_detours_pages(uintptr_t ret_pages[AG_DETOUR_PAGES_MOST]);
/* Unmaps the pages. Call it when no thread is in them and no jump leads there. */
void ag_detours_drop(void);

#endif
