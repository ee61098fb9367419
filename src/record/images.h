/* images.h: the objects loaded into this process, for the trace and for the unwinder. */
#ifndef AG_IMAGES_H
#define AG_IMAGES_H

#include "recorder.h"

/* A function of the type ag_image_find_fn (unwind/stack_walker.h): finds the image (loaded object),
 * or the generated code, that contains pc, and calls USE with it. Calls the loader only if the
 * loader does not report its changes to this process (ag_recorder_watch_images in recorder.h). */
int ag_images_find(void *context, uintptr_t pc, ag_image_use_fn *use, void *use_context);

/* Reads the loader's list, records loaded and unloaded images in the trace, and removes the data
 * about unloaded images from the unwinder. */
void ag_images_refresh(void);

/* Called in a forked child: records the loaded images in the child's trace. */
void ag_images_announce_again(void);

/* Called when a recording starts again in the same process: records all known images in the new
 * trace. */
void ag_images_announce_all(void);

/* The largest id of a known image; 0: no image is known. */
uint32_t ag_images_last_id(void);

/* Frees the memory of the tables of images. No thread may use them during or after this call. */
void ag_images_unmap(void);

#endif
