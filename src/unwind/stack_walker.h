/* stack_walker.h: captures a stack: takes (sp, rbp) at a call of an allocation function and returns
 * the stack's id in the tree (base/stack_tree.h). A capture tries the cache of whole stacks, then
 * compares the memo (the last walk) with the stack, and finds other frames one by one by rule.
 *
 * Threads: a space belongs to the process, a walker to one thread. Signal handlers must not use a
 * walker that is in use; they call ag_walk_plain. Nothing here allocates or locks. The only system
 * calls are ag_populate's, the probes of stack pages (readable_range.h), and ag_walk_plain's. */
#ifndef AG_STACK_WALKER_H
#define AG_STACK_WALKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/stack_tree.h"

struct ag_cfi_place;
struct ag_unwind_image {    /* the unwinder's view of a loaded object */
    uintptr_t low, high;    /* of its loaded segments */
    uintptr_t eh_frame_hdr; /* address of PT_GNU_EH_FRAME, 0: none */
    /* the loaded segment that contains the tables; 0, 0: [low, high), which then has no holes */
    uintptr_t tables_low, tables_high;
    uint32_t id; /* stored with each site (pc in the tree); 0 only for memory that is no image */
    /* For generated code without .eh_frame_hdr: its sorted frame descriptions. Their pcs count from
     * low, their entries from tables_low (eh_frame.h). */
    const struct ag_cfi_place *places; /* NULL: none */
    size_t n_places;
};

/* Calls USE, once, with the image that contains pc. The image stays mapped until USE returns;
 * afterwards it may be unmapped at any moment, so no pointer into it may be kept. Returns 0;
 * -ENOENT: no image contains pc; -EAGAIN: the loader is changing its list, so the result is
 * unknown. record/ supplies the function. It may be slow, but must be async-signal-safe and must
 * not call malloc. */
typedef void ag_image_use_fn(void *context, const struct ag_unwind_image *image);
typedef int ag_image_find_fn(void *context, uintptr_t pc, ag_image_use_fn *use, void *use_context);

struct ag_unwind_space; /* sites, nodes, rules by site, generation; one per process */

/* `tree` is shared memory, zeroed or in use by processes of the same fork family: a whole tree of
 * this size, or with a mapper its base (base/stack_tree.h). `private_memory` is zeroed, has
 * ag_unwind_space_bytes(), and is aligned to a cache line; `depth`: frames kept, 1 to AG_DEPTH_MAX.
 * Returns NULL if there is no memory for the tree. */
size_t ag_unwind_space_bytes(void);
struct ag_unwind_space *ag_unwind_space_init(void *private_memory, void *tree, int tree_size,
                                             const struct ag_piece_mapper *mapper, uint32_t depth,
                                             ag_populate_fn *populate, ag_image_find_fn *find,
                                             void *context);
/* Called after the images in [low, high) are unloaded: drops their rules, and the sites without an
 * image; memos and caches of all threads become invalid. Callers serialize, have removed the images
 * from the results of `find`, and never reuse an image's id. Also call it for the range of a new
 * image where code without an image (JIT) may have run. */
void ag_unwind_space_forget(struct ag_unwind_space *space, uintptr_t low, uintptr_t high);
/* The same for the range of a new image where only code without an image can have run before. */
void ag_unwind_space_forget_made(struct ag_unwind_space *space, uintptr_t low, uintptr_t high);

struct ag_walker; /* memo, stack cache, readable range of the stack; one per thread */
size_t ag_walker_bytes(uint32_t depth);
/* Makes a walker in zeroed memory aligned to a cache line. Only pages that a thread needs are
 * touched. depth: the space's. */
struct ag_walker *ag_walker_init(void *memory, uint32_t depth);

/* The caches of a walker: the part that may be cleared at any moment, also during a capture. These
 * are whole pages, most of the walker's memory. */
void *ag_walker_caches(struct ag_walker *walker, size_t *ret_bytes);

/* Captures a stack: sp points at the return address that the call of the allocation function
 * pushed; rbp is the caller's. Returns the node id; AG_ROOT_NOT_KEPT if the tree is full or has no
 * memory; AG_ROOT_INCOMPLETE if there is no frame at sp. Needs 0.4 KiB of stack; 1.1 KiB for a pc
 * seen for the first time, and 1.6 KiB if its row does not fit into a rule; plus the stack of
 * `find`. */
uint32_t ag_walker_capture(struct ag_walker *walker, struct ag_unwind_space *space,
                           const uintptr_t *sp, uintptr_t rbp);

/* As ag_walker_capture without the cache, for callers that need the frames' positions on the stack:
 * fills ret_frames [the space's depth], innermost first; *ret_n_frames is their number, *ret_root
 * is how the walk ended. */
struct ag_walked_frame {
    uintptr_t pc;  /* the frame's pc */
    uintptr_t sp;  /* low end of its memory, which extends to the next frame's sp */
    uint32_t site; /* of pc */
};
uint32_t ag_walker_capture_frames(struct ag_walker *walker, struct ag_unwind_space *space,
                                  const uintptr_t *sp, uintptr_t rbp,
                                  struct ag_walked_frame *ret_frames, uint32_t *ret_n_frames,
                                  enum ag_root *ret_root);

/* As ag_walker_capture without the cache, for the outer part of the stack: CHOOSE is called once,
 * and returns how many of the innermost frames get no node (at most view->n_frames; if all, the
 * result is the root). */
struct ag_walk_view {
    uint32_t n_frames;  /* [0] is the innermost */
    enum ag_root root;  /* how the walk ended */
    const void *frames; /* for ag_walk_view_pc only */
    uintptr_t (*pc)(const struct ag_walk_view *view, uint32_t i);
};
AG_FAST uintptr_t ag_walk_view_pc(const struct ag_walk_view *view, uint32_t i) {
    return view->pc(view, i);
}
typedef uint32_t ag_walk_choose(void *context, const struct ag_walk_view *view);
uint32_t ag_walker_capture_outer(struct ag_walker *walker, struct ag_unwind_space *space,
                                 const uintptr_t *sp, uintptr_t rbp, ag_walk_choose *choose,
                                 void *context);

/* As ag_walker_capture without memo and cache: for signal handlers that interrupted a capture, and
 * as the reference in debug mode. It maps and unmaps its scratch memory (40 bytes per frame of the
 * space's depth), which takes some microseconds. */
uint32_t ag_walk_plain(struct ag_unwind_space *space, const uintptr_t *sp, uintptr_t rbp);

/* Debug mode: whether the plain walk of the same stack finds `node`, the result of
 * ag_walker_capture. */
bool ag_walker_self_check(struct ag_unwind_space *space, const uintptr_t *sp, uintptr_t rbp,
                          uint32_t node);

#endif
