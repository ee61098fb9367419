/* chunk_supply.h: where a thread gets its next chunk of the segment, and how long it waits for one.
 */
#ifndef AG_CHUNK_SUPPLY_H
#define AG_CHUNK_SUPPLY_H

#include "recorder.h"

struct ag_thread;

/* Takes a chunk for the calling thread: the one given back last, else a fresh one, else it waits
 * for the writer (see the .c). 0, or -EAGAIN: none came in time, or a handler forked and this is
 * the child; -ENOMEM: the segment's file has no room. Async-signal-safe. */
int ag_chunk_supply_take(const struct ag_thread *thread, struct ag_chunk_control **ret_control,
                         uint64_t **ret_words);

/* A second mapping of so many bytes of the live file, of which a part begins at mapped. NULL: no
 * memory. */
void *ag_map_shared_again(void *mapped, uint64_t bytes);

/* In a child whose parent was forked inside of a hook: maps the windows once more and uses these
 * from here on; what the hook still has of the old ones can then be replaced. false: no memory. */
bool ag_chunk_supply_map_again(void);

/* Unmaps the windows; nobody is in them any more. */
void ag_chunk_supply_unmap(void);

#endif
