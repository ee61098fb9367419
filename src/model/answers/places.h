/* places.h: stacks as addresses, for export formats that contain addresses and images. A place is a
 * pc in an image, with its frames (several if functions were inlined). */
#ifndef AG_PLACES_H
#define AG_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"

#define AG_NO_IMAGE UINT32_MAX

struct ag_image_row {
    const char *path;
    const uint8_t *build_id;
    size_t build_id_bytes;
    uint64_t low, high; /* addresses in the process */
};
/* Lists the images of the trace; the caller frees the list. Unloaded images are included, so two
 * images may have the same addresses. */
int ag_profile_images(const struct ag_profile *profile, struct ag_image_row **ret_rows,
                      size_t *ret_count);

struct ag_place {
    /* an address inside the call instruction, or the address of the instruction that a signal
     * interrupted; 0: a managed frame (of a virtual machine), which has no address */
    uint64_t address;
    uint32_t image;         /* index in ag_profile_images, or AG_NO_IMAGE */
    const uint32_t *frames; /* innermost first */
    size_t n_frames;
};
/* ag_profile_stack_places returns a stack as an array of the numbers of its places, innermost
 * first, and their count; ag_profile_place returns the place with a number. Equal numbers are the
 * same place; all numbers are below ag_profile_place_limit. ROW: index of the stack in the result
 * of ag_profile_stacks (model/profile.h). RET_PLACES must have room for AG_PLACES_MOST numbers. */
enum { AG_PLACES_MOST = 65536 };
uint32_t ag_profile_place_limit(const struct ag_profile *profile);
size_t ag_profile_stack_places(struct ag_profile *profile, uint32_t row, uint32_t *ret_places);
struct ag_place ag_profile_place(struct ag_profile *profile, uint32_t place);

#endif
