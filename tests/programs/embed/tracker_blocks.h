/* tracker_blocks.h: the source of the blocks with which tracker_rules.c tests the rules of
 * trackers (callbacks of a program for sampled blocks, see allogram.h). There are two sources:
 * calls of allogram.h (tracker_blocks.c), and a script of Lua whose blocks allogram's adapter for
 * Lua reports (tracker_blocks_lua.c).
 *
 * A rule gives each block a name, IN(place, n). A place is a group of blocks, for which
 * tracker_blocks_lua.c has a Lua state of its own. Only one thread at a time uses a place. While a
 * callback for a block of a place runs, no other block of this place is allocated or freed. */
#ifndef TRACKER_BLOCKS_H
#define TRACKER_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <allogram/allogram.h>

#define IN(place, n) ((uint64_t)(place) << 32 | (n))

/* Called once, before everything else. */
void blocks_begin(void);
extern allogram_heap blocks_heap;

/* In an alloc callback: whether the sample is a block that a rule has allocated. All other blocks
 * are internal to the source of the blocks.
 */
bool blocks_have(const struct allogram_sample *sample);
/* In an alloc callback: the name of a block that a rule has allocated. */
uint64_t blocks_name(const struct allogram_sample *sample);

void block_new(uint64_t name);
void block_free(uint64_t name);
/* Allocates n blocks, up to 16, with the names first, first + 1, and so on. If blocks_come_together
 * is true, one call reports all of them (allogram_alloc_together), otherwise one call reports
 * each. */
extern const bool blocks_come_together;
void blocks_new_together(uint64_t first, size_t n);
void blocks_free_all(uint64_t first, size_t n);
/* Allocates a block that block_grow can enlarge. A call of block_grow counts as a free of `name`
 * and an allocation of `new_name`. */
void block_new_growing(uint64_t name);
void block_grow(uint64_t name, uint64_t new_name);
/* Allocates n blocks of the two sizes in turn, which may die at any time. Returns the sum of the
 * bytes allocated, plus one byte for each block. */
uint64_t blocks_new_periodic(size_t n, size_t one, size_t other);
void block_promote(uint64_t name);
void block_complete(uint64_t name);
/* Discards the live blocks of a place, which is given by the name of one of them, without reporting
 * their frees. The next block has the address of the place's first block. */
void blocks_start_over(uint64_t place);
/* Leaves a callback by longjmp, or by an error of Lua: the call that allocated or freed does not
 * return. Execution continues at BLOCKS_CATCH, which then returns 1. */
void blocks_leave(void) __attribute__((noreturn));

#include <setjmp.h>
extern __thread jmp_buf blocks_out;
#define BLOCKS_CATCH() setjmp(blocks_out)

#endif
