/* images.h: the objects loaded into this process, for the trace and for the unwinder. */
#ifndef AG_IMAGES_H
#define AG_IMAGES_H

#include "recorder.h"

/* An ag_image_find_fn: finds the image, or the generated code, that contains pc. Calls the loader
 * only if the loader does not report its changes (ag_recorder_watch_images). */
int ag_images_find(void *context, uintptr_t pc, ag_image_use_fn *use, void *use_context);

/* Reads the loader's list, announces loaded and unloaded images to the trace, and makes the
 * unwinder forget the unloaded ones. */
void ag_images_refresh(void);

/* Called in a forked child: announces the loaded images to the child's trace. */
void ag_images_announce_again(void);

/* Called when a recording starts again in the same process: announces the images in the list. */
void ag_images_announce_all(void);

uint32_t ag_images_last_id(void);

/* Frees the tables' memory. No thread may use them any more. */
void ag_images_unmap(void);

#endif
