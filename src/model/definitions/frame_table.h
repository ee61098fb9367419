/* frame_table.h: converts sites (a site is a pc in an image) to frames as users see them. Each site
 * is looked up once. A managed frame (of a virtual machine's function) has no address: the trace
 * itself defines it. */
#ifndef AG_FRAME_TABLE_H
#define AG_FRAME_TABLE_H

#include "model/definitions/definitions.h"

struct ag_model_frame {
    struct ag_frame frame;
    uint32_t function, file, image, runtime; /* ids of texts */
};
struct ag_frame_answer { /* frames [first, first + count) of `list`; count 0: not looked up yet */
    uint32_t first, count;
    bool is_shim; /* all its frames only forward a runtime's call to its allocator */
};
enum { AG_FRAME_PAGE = 1024 };
struct ag_frame_table {
    struct ag_definitions *definitions;
    struct ag_symbolizer *symbolizer;
    /* of AG_FRAME_PAGE frames each, so that frames never move in memory */
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
/* Initializes the table and its symbolizer. DEFINITIONS must have their images; their nodes may be
 * loaded later. 0 or -ENOMEM. */
int ag_frame_table_init(struct ag_frame_table *table, struct ag_definitions *definitions,
                        const struct ag_symbol_options *options);
/* Makes room for the answers. Call it once, after the nodes are loaded and before
 * ag_frame_table_site or ag_frame_table_add_frame. 0 or -ENOMEM. */
int ag_frame_table_make_answers(struct ag_frame_table *table);
/* Adds a frame to the answer of a site, which the symbolizer is then not asked for. The texts are
 * copied. The calls for one site must follow each other. 0 or -ENOMEM. */
int ag_frame_table_add_frame(struct ag_frame_table *table, uint32_t site,
                             const struct ag_frame *frame);
/* Copies a frame of another table, with its texts, and returns its number in this one.
 * AG_INDEX_NONE: no memory. */
uint32_t ag_frame_table_copy(struct ag_frame_table *table, const struct ag_frame *frame);
/* The number of the managed frame that FRAME record ID of the trace defines, at LINE (0: the line
 * of the record). If the trace does not define ID, the frame is named "frame ID". AG_INDEX_NONE: no
 * memory. */
uint32_t ag_frame_table_managed(struct ag_frame_table *table, uint32_t id, uint32_t line);
/* Opens the symbol files of all images that occur in stacks; see ag_profile_open_images. */
void ag_frame_table_open_images(struct ag_frame_table *table);
void ag_frame_table_done(struct ag_frame_table *table);
/* The frames of a site, innermost first, at least one. The result is valid until the next call.
 * NULL: no memory. */
const struct ag_frame_answer *ag_frame_table_site(struct ag_frame_table *table, uint32_t site);

#endif
