/* row_stack.c: a row's stack as one list of frames, with a mark where callers are missing: a flame
 * graph whose stacks start in the middle of a program without a mark is misleading. So a stack that
 * was cut gets a frame for that, outermost. */
#include "export/format_writer.h"
#include "table/array.h"

static const struct ag_frame marks[] = {
    {.function = "[no stack]", .label = "[no stack]", .image = "", .runtime = "c"},
    {.function = "[cut]", .label = "[cut]", .image = "", .runtime = "c"},
    {.function = "[incomplete]", .label = "[incomplete]", .image = "", .runtime = "c"},
};

const struct ag_frame *ag_export_frame(const struct ag_export *export, int64_t frame) {
    return frame < 0 ? &marks[-frame - 1] : ag_profile_frame(export->profile, (uint32_t)frame);
}

size_t ag_export_stack(struct ag_export *export, uint32_t row,
                       const struct ag_stack_frame **ret_frames) {
    const size_t n_places = ag_profile_stack_places(export->profile, row, export->places);
    size_t n = 0;
    for (size_t i = 0; i < n_places; i++) {
        const struct ag_place place = ag_profile_place(export->profile, export->places[i]);
        if (AG_ARRAY_RESERVE(export->frames, export->frame_capacity, n + place.n_frames + 1) < 0) {
            return 0;
        }
        for (size_t k = 0; k < place.n_frames; k++) {
            export->frames[n++] = (struct ag_stack_frame){.frame = place.frames[k],
                                                          .place = export->places[i],
                                                          .is_last = k + 1 == place.n_frames};
        }
    }
    int64_t mark = 0;
    if (n == 0) {
        mark = AG_FRAME_NO_STACK;
    } else if (export->rows[row].state == AG_STACK_CUT) {
        mark = AG_FRAME_CUT;
    } else if (export->rows[row].state == AG_STACK_INCOMPLETE) {
        mark = AG_FRAME_INCOMPLETE;
    }
    if (AG_ARRAY_RESERVE(export->frames, export->frame_capacity, n + 1) < 0) {
        return 0;
    }
    if (mark != 0) {
        export->frames[n++] =
            (struct ag_stack_frame){.frame = mark, .place = AG_NO_PLACE, .is_last = true};
    }
    *ret_frames = export->frames;
    return n;
}
