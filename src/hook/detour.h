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

/* Puts the bytes back; a detour that is not installed is left alone. The page stays, since a call
 * may be in it: one page for each detour of the process, ever. -EBUSY: somebody else changed the
 * bytes since; they are left as they are. */
int ag_detour_remove(struct ag_detour *detour);

/* A function of a running program that is to be detoured together with others. */
struct ag_detour_wish {
    void *target;
    size_t target_bytes; /* 0: unknown */
    void *replacement;
    void **ret_original;
    struct ag_detour
        detour; /* answer: place, saved and jump; place NULL: why not is in its reason */
};
/* Prepares all that can be done while other threads run, in one page for all of them: what is left
 * is to write the jumps, when nobody stands in the bytes that they replace, and that is for who can
 * stop the threads (from outside). At most AG_DETOURS_PREPARED of them. 0 and the page, which the
 * caller unmaps when nobody can be in it any more, also when single wishes could not be granted; or
 * a negative errno with *ret_reason. */
enum { AG_DETOURS_PREPARED = 28, AG_DETOURS_PAGE_BYTES = 4096 };
int ag_detours_prepare(struct ag_detour_wish *wishes, size_t n_wishes, void **ret_page,
                       const char **ret_reason);

#endif
