/* images.h: the objects loaded into this process, as the trace and the unwinder need them. */
#ifndef AG_IMAGES_H
#define AG_IMAGES_H

#include "recorder.h"

/* For the unwinder: the image, or the generated code, that contains pc. ag_image_find_fn. Asks the
 * loader only where it does not report its changes (ag_recorder_watch_images). */
int ag_images_find(void *context, uintptr_t pc, ag_image_use_fn *use, void *use_context);

/* Asks the loader; announces to the trace what came and went; the unwinder forgets what went. */
void ag_images_refresh(void);

/* A forked child's trace starts with what is loaded now. */
void ag_images_announce_again(void);

/* A new recording of the same process: what is in the list is there still. */
void ag_images_announce_all(void);

/* The largest id given out so far. */
uint32_t ag_images_last_id(void);

/* Gives the tables' memory back; nobody asks any more. */
void ag_images_unmap(void);

#endif
