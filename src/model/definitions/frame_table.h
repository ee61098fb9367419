/* frame_table.h: converts sites (a pc in an image) to frames as shown to users, each looked up
 * once.
 *
 * A site holds a return address, so its call is looked up; but if the frame was interrupted by a
 * signal, the pc itself. So each site has two results, looked up separately. A managed frame has no
 * address: the trace itself defines it, and both results are the same. */
#ifndef AG_FRAME_TABLE_H
#define AG_FRAME_TABLE_H

#include "model/definitions/definitions.h"

struct ag_model_frame {
    struct ag_frame frame;
    uint32_t function, file, image, runtime; /* texts */
};
struct ag_frame_answer { /* frames [first, first + count) of list; count 0: not asked yet */
    uint32_t first, count;
    bool is_trampoline; /* its caller was interrupted, and has an exact pc */
    bool is_shim;       /* all of it is a runtime's binding to its allocator */
};
enum { AG_FRAME_PAGE = 1024 };
struct ag_frame_table {
    struct ag_definitions *definitions;
    struct ag_symbolizer *symbolizer;
    struct ag_model_frame **pages; /* of AG_FRAME_PAGE each: frames never move */
    size_t n_frames;
    struct ag_index_map by_hash;
    uint32_t *list;
    size_t n_list;
    struct ag_frame_answer *answers; /* 2 * site + (0: of a call, 1: exact) */
    uint32_t no_stack;               /* the frame that stands for a stack without frames */
    uint32_t native;                 /* text "c" */
};

static inline struct ag_model_frame *ag_frame_table_get(const struct ag_frame_table *table,
                                                        uint32_t frame) {
    return &table->pages[frame / AG_FRAME_PAGE][frame % AG_FRAME_PAGE];
}
/* The table and its symbolizer, of DEFINITIONS that have their images, if not yet their nodes. 0 or
 * -ENOMEM. */
int ag_frame_table_init(struct ag_frame_table *table, struct ag_definitions *definitions,
                        const struct ag_symbol_options *options);
/* Once, when the nodes are there, before the first of their sites is asked for. 0 or -ENOMEM. */
int ag_frame_table_expect_sites(struct ag_frame_table *table);
/* Adds a frame to a site's answer, exact or not, instead of asking the symbolizer; its texts are
 * copied. All frames of a site in one go. 0 or -ENOMEM. */
int ag_frame_table_report(struct ag_frame_table *table, uint32_t site,
                          const struct ag_frame *frame);
/* The number of a frame of another table in this one; its texts are copied. AG_INDEX_NONE: no
 * memory. */
uint32_t ag_frame_table_copy(struct ag_frame_table *table, const struct ag_frame *frame);
/* The number of a frame that the trace defines, at LINE of it (0: its own). An id that it does not
 * define is a frame, too, with that id for a name. AG_INDEX_NONE: no memory. */
uint32_t ag_frame_table_managed(struct ag_frame_table *table, uint32_t id, uint32_t line);
/* Opens the files of all images that sites are in: see ag_profile_open_images. */
void ag_frame_table_open_images(struct ag_frame_table *table);
void ag_frame_table_done(struct ag_frame_table *table);
/* The frames of a site, innermost first, at least 1; valid until the next call. NULL: no memory. */
const struct ag_frame_answer *ag_frame_table_site(struct ag_frame_table *table, uint32_t site,
                                                  bool is_exact);

#endif
