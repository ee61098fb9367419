/* stack_walker.h: captures a stack: takes sp and rbp at a call of an allocation function and
 * returns the stack's id in the stack tree (base/stack_tree.h). A capture first searches the cache
 * of whole stacks. If the stack is not in the cache, the capture walks from frame to frame. The
 * rule of a pc, made from the DWARF call frame information, says how to compute the caller's sp, pc
 * and rbp. The walk ends at the first frame that is in the memo, the frames of the last walk.
 *
 * Threads: a struct ag_unwind_space belongs to the process, a struct ag_walker to one thread. A
 * signal handler must not use a walker that is in use; it calls ag_walk_plain instead. No function
 * of this file calls malloc or takes a lock. The only system calls are those of the caller's
 * functions (`find`, `populate` and the mapper), the tests of stack pages (readable_range.h), and
 * those with which ag_walk_plain maps memory. */
#ifndef AG_STACK_WALKER_H
#define AG_STACK_WALKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/stack_tree.h"

struct ag_cfi_place;
struct ag_unwind_image {    /* the unwinder's view of a loaded object */
    uintptr_t low, high;    /* [low, high): the loaded segments */
    uintptr_t eh_frame_hdr; /* address of PT_GNU_EH_FRAME, 0: none, or one without a table */
    /* the loaded segment that contains the unwind tables; 0, 0: the tables are in [low, high),
     * which then must have no unmapped parts */
    uintptr_t tables_low, tables_high;
    /* The stack tree stores it with each pc of the image (struct ag_site); 0 for generated code,
     * which is no image. */
    uint32_t id;
    /* For code without .eh_frame_hdr: a sorted table of its functions (eh_frame.h). first_pc is
     * relative to `low`; `entry`, the offset of the FDE, to `tables_low`. */
    const struct ag_cfi_place *places; /* NULL: none */
    size_t n_places;
};

/* Calls USE, once, with the image that contains pc. The image stays mapped until USE returns.
 * Afterward it may be unmapped at any moment, so USE must not store pointers into it. Returns 0;
 * -ENOENT: no image contains pc; -EAGAIN: the loader is changing its list, so the result is
 * unknown. record/ supplies the function. It may be slow, but must be async-signal-safe and must
 * not call malloc. */
typedef void ag_image_use_fn(void *context, const struct ag_unwind_image *image);
typedef int ag_image_find_fn(void *context, uintptr_t pc, ag_image_use_fn *use, void *use_context);

/* the stack tree, the rule of each pc, and a generation (a number that changes when images are
 * unloaded); one per process */
struct ag_unwind_space;

/* `tree` is shared memory. Without a mapper it has a whole tree; with a mapper it has only the
 * tree's base (base/stack_tree.h). It is zeroed, or in use by processes that forked from each
 * other. `private_memory` is zeroed, has ag_unwind_space_bytes(), and is aligned to a cache line;
 * `depth`: frames kept, 1 to AG_DEPTH_MAX. Returns NULL if there is no memory for the tree. */
size_t ag_unwind_space_bytes(void);
struct ag_unwind_space *ag_unwind_space_init(void *private_memory, void *tree, int tree_size,
                                             const struct ag_piece_mapper *mapper, uint32_t depth,
                                             ag_populate_fn *populate, ag_image_find_fn *find,
                                             void *context);
/* Has to be called after the images in [low, high) were unloaded. Drops the rules of the pcs in
 * this range. Code without an image (JIT code) may have run in the range, too; the sites of its pcs
 * in the stack tree are also dropped. If anything may have been dropped, the memos and caches of
 * all threads become invalid. Only one thread may call it at a time. Before the call, `find` must
 * not find the images anymore; an image's id must never be used for another image. Also has to be
 * called for the range of a new image if code without an image may have run there. */
void ag_unwind_space_forget(struct ag_unwind_space *space, uintptr_t low, uintptr_t high);
/* Does what ag_unwind_space_forget does, for the range of a new image in which only code without an
 * image can have run before. Returns at once if no such code was seen. */
void ag_unwind_space_forget_made(struct ag_unwind_space *space, uintptr_t low, uintptr_t high);

struct ag_walker; /* memo, stack cache, readable range of the stack; one per thread */
size_t ag_walker_bytes(uint32_t depth);
/* Makes a walker in zeroed memory of ag_walker_bytes, aligned to a cache line. Only pages that are
 * needed are touched. depth: that of the space. */
struct ag_walker *ag_walker_init(void *memory, uint32_t depth);

/* The caches of a walker: the part of its memory that may be filled with zeros at any moment, even
 * during a capture. It consists of whole pages, and is most of the walker's memory. */
void *ag_walker_caches(struct ag_walker *walker, size_t *ret_bytes);

/* Captures a stack. sp points to the return address that the call of the allocation function
 * pushed; rbp is the register's value in the caller. Returns the node id; AG_ROOT_NOT_KEPT if the
 * tree is full or has no memory; AG_ROOT_INCOMPLETE if there is no frame at sp. Needs 0.4 KiB of
 * stack. For a pc that is seen for the first time it needs 1.1 KiB plus the stack of `find`; 1.6
 * KiB plus the stack of `find` if the rule of the pc is too complex for the one word that caches a
 * rule. */
uint32_t ag_walker_capture(struct ag_walker *walker, struct ag_unwind_space *space,
                           const uintptr_t *sp, uintptr_t rbp);

/* Captures like ag_walker_capture, without the cache, for callers that need the positions of the
 * frames on the stack. Fills ret_frames, an array with the depth of the space, innermost first.
 * *ret_n_frames is the number of frames; *ret_root says how the walk ended. */
struct ag_walked_frame {
    uintptr_t pc;  /* the frame's pc */
    uintptr_t sp;  /* lowest address of the frame, which extends to the sp of the next frame */
    uint32_t site; /* id of pc's struct ag_site in the stack tree */
};
uint32_t ag_walker_capture_frames(struct ag_walker *walker, struct ag_unwind_space *space,
                                  const uintptr_t *sp, uintptr_t rbp,
                                  struct ag_walked_frame *ret_frames, uint32_t *ret_n_frames,
                                  enum ag_root *ret_root);

/* Captures the outer part of a stack like ag_walker_capture, without the cache. CHOOSE is called
 * once, and returns how many of the innermost frames are left out (at most view->n_frames; if all
 * frames are left out, the result is view->root). No nodes are made for these frames. */
struct ag_walk_view {
    uint32_t n_frames;  /* number of frames; index 0 is the innermost */
    enum ag_root root;  /* how the walk ended */
    const void *frames; /* data for the function `pc` */
    uintptr_t (*pc)(const struct ag_walk_view *view, uint32_t i);
};
AG_FAST uintptr_t ag_walk_view_pc(const struct ag_walk_view *view, uint32_t i) {
    return view->pc(view, i);
}
typedef uint32_t ag_walk_choose(void *context, const struct ag_walk_view *view);
uint32_t ag_walker_capture_outer(struct ag_walker *walker, struct ag_unwind_space *space,
                                 const uintptr_t *sp, uintptr_t rbp, ag_walk_choose *choose,
                                 void *context);

/* Captures like ag_walker_capture, without memo and cache. For signal handlers that interrupted a
 * capture, and as the reference in debug mode. It maps and unmaps memory for the frames (40 bytes *
 * the space's depth), which takes a few microseconds. */
uint32_t ag_walk_plain(struct ag_unwind_space *space, const uintptr_t *sp, uintptr_t rbp);

/* Debug mode: whether the plain walk of the same stack finds `node`, the result of
 * ag_walker_capture. */
bool ag_walker_self_check(struct ag_unwind_space *space, const uintptr_t *sp, uintptr_t rbp,
                          uint32_t node);

#endif
