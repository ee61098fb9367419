/* places.h: stacks as addresses, for formats that contain addresses and images: a place is a pc in
 * an image, with its frames (several where functions were inlined). */
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
/* Every image of the trace, including unloaded ones: two may share addresses. */
size_t ag_profile_images(const struct ag_profile *profile, struct ag_image_row *ret_rows,
                         size_t capacity);

struct ag_place {
    uint64_t address;       /* in the call, or of the instruction that a signal interrupted; 0: of
                               a managed frame */
    uint32_t image;         /* of ag_profile_images, or AG_NO_IMAGE */
    const uint32_t *frames; /* innermost first */
    size_t n_frames;
};
/* Stacks as numbers of places, innermost first. Equal numbers are equal places; they count from 0
 * and stay below ag_profile_place_limit. RET_PLACES has room for AG_PLACES_MOST. */
enum { AG_PLACES_MOST = 65536 };
uint32_t ag_profile_place_limit(const struct ag_profile *profile);
size_t ag_profile_stack_places(struct ag_profile *profile, uint32_t row, uint32_t *ret_places);
struct ag_place ag_profile_place(struct ag_profile *profile, uint32_t place);

#endif
