/* images.h: the objects loaded into this process, as the trace and the unwinder need them. */
#ifndef AG_IMAGES_H
#define AG_IMAGES_H

#include "recorder.h"

/* For the unwinder: the image, or the generated code, that contains pc, found in the list or by
 * asking the loader again.
 * Async-signal-safe as far as the loader's list lock is recursive, which glibc's is. */
bool ag_images_find(void *context, uintptr_t pc, struct ag_unwind_image *ret_image);

/* Asks the loader; tells the trace what came and went; the unwinder forgets what went. */
void ag_images_refresh(void);

/* A forked child's trace starts with what is loaded now. */
void ag_images_announce_again(void);

/* A new recording of the same process: what is in the list is there still. */
void ag_images_announce_all(void);

/* The largest id given out so far. */
uint32_t ag_images_last_id(void);

/* Gives the list's memory back; nobody asks any more. */
void ag_images_unmap(void);

#endif
