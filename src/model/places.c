/* places.c: places are the answers of the frame table, by their number there: twice the site, plus
 * one where the pc was interrupted instead of called from. */
#include "model/places.h"

#include "model/profile_state.h"

size_t ag_profile_images(const struct ag_profile *profile, struct ag_image_row *ret_rows,
                         size_t capacity) {
    const struct ag_definitions *definitions = &profile->definitions;
    for (size_t i = 0; i < definitions->n_images && i < capacity; i++) {
        const struct ag_model_image *image = &definitions->images[i];
        ret_rows[i] = (struct ag_image_row){.path = ag_text(&definitions->texts, image->path),
                                            .build_id = image->build_id,
                                            .build_id_bytes = image->build_id_bytes,
                                            .low = image->low,
                                            .high = image->high};
    }
    return definitions->n_images;
}

uint32_t ag_profile_place_limit(const struct ag_profile *profile) {
    return (uint32_t)(2 * profile->definitions.nodes.n_sites);
}

size_t ag_profile_stack_places(struct ag_profile *profile, uint32_t row, uint32_t *ret_places) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    size_t count = 0;
    if (ag_profile_resolve(profile) < 0) {
        return 0;
    }
    for (uint32_t node = profile->row_nodes[row]; !AG_IS_ROOT(node) && count < AG_PLACES_MOST;
         node = nodes->nodes[node].parent) {
        ret_places[count++] = 2 * nodes->nodes[node].site + profile->node_is_exact[node];
    }
    return count;
}

struct ag_place ag_profile_place(struct ag_profile *profile, uint32_t place) {
    const struct ag_definitions *definitions = &profile->definitions;
    const struct ag_stack_site *site = &definitions->nodes.sites[place / 2];
    const struct ag_frame_answer *answer = &profile->frames.answers[place];
    const uint32_t image = ag_index_map_find(&definitions->image_index, site->image);
    const bool is_exact = place & 1;
    return (struct ag_place){.address = site->pc - (is_exact || site->pc == 0 ? 0 : 1),
                             .image = image == AG_INDEX_NONE ? AG_NO_IMAGE : image,
                             .frames = profile->frames.list + answer->first,
                             .n_frames = answer->count};
}
