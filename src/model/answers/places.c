/* places.c: gives exporters the addresses, images and frames of stacks. The number of a place is
 * the number of the site (a pc in an image) in the table of sites of the stack nodes. */
#include "model/answers/places.h"

#include <stdlib.h>

#include "model/profile_state.h"
#include "table/array.h"

/* Adds the images of a profile, or those of all its processes, one process after the other. */
static int add_images(const struct ag_profile *profile, struct ag_image_row **rows, size_t *count) {
    const struct ag_definitions *definitions = &profile->definitions;
    int r = 0;
    for (size_t p = 0; p < profile->n_parts && r == 0; p++) {
        r = add_images(profile->parts[p].profile, rows, count);
    }
    for (size_t i = 0; i < definitions->n_images && r == 0; i++) {
        const struct ag_model_image *image = &definitions->images[i];
        const struct ag_image_row row = {.path = ag_text(&definitions->texts, image->path),
                                         .build_id = image->build_id,
                                         .build_id_bytes = image->build_id_bytes,
                                         .low = image->low,
                                         .high = image->high};
        r = AG_ARRAY_ADD(*rows, *count, row);
    }
    return r;
}

int ag_profile_images(const struct ag_profile *profile, struct ag_image_row **ret_rows,
                      size_t *ret_count) {
    struct ag_image_row *rows = NULL;
    size_t count = 0;
    const int r = add_images(profile, &rows, &count);
    if (r < 0) {
        free(rows);
        return r;
    }
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

uint32_t ag_profile_place_limit(const struct ag_profile *profile) {
    return (uint32_t)profile->definitions.nodes.n_sites;
}

size_t ag_profile_stack_places(struct ag_profile *profile, uint32_t row, uint32_t *ret_places) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    size_t count = 0;
    if (ag_profile_resolve(profile) < 0) {
        return 0;
    }
    for (uint32_t node = profile->row_nodes[row]; !AG_IS_ROOT(node) && count < AG_PLACES_MOST;
         node = nodes->nodes[node].parent) {
        ret_places[count++] = nodes->nodes[node].site;
    }
    return count;
}

struct ag_place ag_profile_place(struct ag_profile *profile, uint32_t place) {
    const struct ag_definitions *definitions = &profile->definitions;
    const struct ag_stack_site *site = &definitions->nodes.sites[place];
    const struct ag_frame_answer *answer = &profile->frames.answers[place];
    /* In a profile that is merged from several processes, `pc` of a site contains the index of a
     * process and the number of a site in the profile of that process. The address and the image
     * come from that profile; the frames come from the merged profile. */
    if (profile->n_parts > 0) {
        struct ag_merged_part *part = &profile->parts[site->pc >> AG_MERGED_SITE_BITS];
        const uint64_t own = site->pc & ((UINT64_C(1) << AG_MERGED_SITE_BITS) - 1);
        struct ag_place found = ag_profile_place(part->profile, (uint32_t)own);
        found.image += found.image != AG_NO_IMAGE ? (uint32_t)part->image_base : 0;
        found.frames = profile->frames.list + answer->first;
        found.n_frames = answer->count;
        return found;
    }
    const uint32_t image = ag_index_map_find(&definitions->image_index, site->image);
    const uint64_t address = site->image == AG_IMAGE_MANAGED ? 0 : site->pc - (site->pc != 0);
    return (struct ag_place){.address = address,
                             .image = image == AG_INDEX_NONE ? AG_NO_IMAGE : image,
                             .frames = profile->frames.list + answer->first,
                             .n_frames = answer->count};
}
