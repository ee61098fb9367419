/* loaded_images.h: the loaded objects of this process, for programs that use the stack walker
 * without the agent. */
#ifndef LOADED_IMAGES_H
#define LOADED_IMAGES_H

#include <stdint.h>

#include "unwind/unwind_space.h"

/* Calls `use` with the image that contains the pc; can be the member `find` of a struct
 * ag_unwind_space. UNUSED: the context of `find`. Returns 0, or -ENOENT if no image contains the
 * pc. */
int loaded_image_find(void *unused, uintptr_t pc, ag_image_use_fn *use, void *use_context);

/* A `use` that copies the image to the struct ag_unwind_image to which the context points. */
void loaded_image_copy(void *context, const struct ag_unwind_image *image);

#endif
