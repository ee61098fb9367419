/* frame_table.h: converts sites (a site is a pc in an image) to frames as users see them. Each site
 * is looked up once. A managed frame (a frame of a virtual machine's function) has no address: the
 * trace itself defines its function. */
#ifndef AG_FRAME_TABLE_H
#define AG_FRAME_TABLE_H

#include "model/definitions/definitions.h"

struct ag_model_frame {
    struct ag_frame frame;
    uint32_t function, file, image, runtime; /* ids of texts */
};
struct ag_frame_answer { /* the frames of a site: `count` elements of `list`, beginning at index
                          * `first`; count 0: the site was not looked up yet */
    uint32_t first, count;
    bool is_folded; /* reports show no frame of the site: `count` is 0 */
    bool is_shim;   /* all frames of the site only forward a runtime's call to its allocator */
};
enum { AG_FRAME_PAGE = 1024 };
struct ag_frame_table {
    struct ag_definitions *definitions;
    struct ag_symbolizer *symbolizer;
    /* arrays of AG_FRAME_PAGE frames, so that frames never move in memory when frames are added */
    struct ag_model_frame **pages;
    size_t n_frames;
    struct ag_index_map by_hash;
    uint32_t *list;
    size_t n_list;
    struct ag_frame_answer *answers; /* by site */
    uint32_t no_stack;               /* the frame "[no stack]", shown for a stack without frames */
    uint32_t native;                 /* id of the text "c", the runtime of native frames */
};

static inline struct ag_model_frame *ag_frame_table_get(const struct ag_frame_table *table,
                                                        uint32_t frame) {
    return &table->pages[frame / AG_FRAME_PAGE][frame % AG_FRAME_PAGE];
}
/* Initializes the table and its symbolizer. The images of DEFINITIONS must be loaded; the nodes may
 * be loaded later. Returns 0 or -ENOMEM. */
int ag_frame_table_init(struct ag_frame_table *table, struct ag_definitions *definitions,
                        const struct ag_symbol_options *options);
/* Allocates `answers`. Call it once, after the nodes are loaded and before ag_frame_table_site or
 * ag_frame_table_add_frame. 0 or -ENOMEM. */
int ag_frame_table_make_answers(struct ag_frame_table *table);
/* Adds a frame to the answer of a site, so that the symbolizer is not called for the site. The
 * texts of FRAME are copied. All calls for one site must follow each other. Returns 0 or
 * -ENOMEM. */
int ag_frame_table_add_frame(struct ag_frame_table *table, uint32_t site,
                             const struct ag_frame *frame);
/* Copies a frame of another table with its texts into TABLE, and returns its number in TABLE.
 * AG_INDEX_NONE: out of memory. */
uint32_t ag_frame_table_copy(struct ag_frame_table *table, const struct ag_frame *frame);
/* Returns the number of a managed frame. The record of kind FRAME with the number ID defines the
 * function of the frame; LINE is the frame's line (0: the line in the record). If the trace does
 * not define ID, the frame is named "frame ID". AG_INDEX_NONE: out of memory. */
uint32_t ag_frame_table_managed(struct ag_frame_table *table, uint32_t id, uint32_t line);
void ag_frame_table_done(struct ag_frame_table *table);
/* Returns the frames of a site, innermost first, at least one unless the site is folded. The result
 * is valid until the next call. NULL: out of memory. */
const struct ag_frame_answer *ag_frame_table_site(struct ag_frame_table *table, uint32_t site);

#endif
