/* tracker_blocks.h: whose blocks the rules of trackers (tracker_rules.c) are held against: those of
 * calls of allogram.h (tracker_blocks.c), or those that a script of Lua allocates and the adapter
 * tells of (tracker_blocks_lua.c).
 *
 * A block has a name, IN(place, n): the rules choose it. Each place is one Lua; one thread at a
 * time is in it, and nothing is done in a place while a callback of it runs. */
#ifndef TRACKER_BLOCKS_H
#define TRACKER_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <allogram/allogram.h>

#define IN(place, n) ((uint64_t)(place) << 32 | (n))

/* Once, before all else. */
void blocks_begin(void);
extern allogram_heap blocks_heap;

/* In an alloc callback: whether this is a block of the rules; others are the allocator's own. */
bool blocks_have(const struct allogram_sample *sample);
/* And its name. */
uint64_t blocks_name(const struct allogram_sample *sample);

void block_new(uint64_t name);
void block_free(uint64_t name);
/* n up to 16: names first, first + 1 ... Either told together (allogram_alloc_together), or by one
 * expression that makes them one after the other. */
extern const bool blocks_come_together;
void blocks_new_together(uint64_t first, size_t n);
void blocks_free_all(uint64_t first, size_t n);
/* A block that grows: one free and one allocation, which has the name new_name. */
void block_new_growing(uint64_t name);
void block_grow(uint64_t name, uint64_t new_name);
/* n blocks of the two sizes in turn, which die whenever they like. Returns the sum of what was
 * allocated in all, one byte more for each block. */
uint64_t blocks_new_periodic(size_t n, size_t one, size_t other);
void block_promote(uint64_t name);
void block_complete(uint64_t name);
/* What lives in the place is given up without a word; the next block lies where its first one did.
 */
void blocks_start_over(uint64_t place);
/* Leaves a callback as the allocator's users leave it: the call that allocated or freed does not
 * come back, but goes on behind BLOCKS_CATCH with 1. */
void blocks_leave(void) __attribute__((noreturn));

#include <setjmp.h>
extern __thread jmp_buf blocks_out;
#define BLOCKS_CATCH() setjmp(blocks_out)

#endif
