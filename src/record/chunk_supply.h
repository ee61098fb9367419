/* chunk_supply.h: supplies a thread with its next chunk (64 KiB of the shared segment for its
 * events), and bounds how long it waits. */
#ifndef AG_CHUNK_SUPPLY_H
#define AG_CHUNK_SUPPLY_H

#include "format/counter_set.h"
#include "recorder.h"

struct ag_thread;

/* Takes a chunk for the calling thread: the one returned last, or a fresh one, or it waits for the
 * writer (see chunk_supply.c). 0; -EAGAIN: no chunk was returned in time, or a signal handler
 * forked and this is the child; -ENOMEM: the segment's file has no room. Async-signal-safe. */
int ag_chunk_supply_take(const struct ag_thread *thread, struct ag_chunk_control **ret_control,
                         uint64_t **ret_words);

/* Takes a chunk for function counters (format/counter_set.h) and fills it with zeros; never waits.
 * Returns its number; -1: there is no room, or this is a forked child that has not begun. */
int64_t ag_chunk_supply_take_counters(enum ag_counter_chunk kind, unsigned char **ret_bytes);

/* Makes a second mapping of so many bytes of the live file, from the place that is mapped at
 * `mapped` on. NULL: no memory. */
void *ag_map_shared_again(void *mapped, uint64_t bytes);

/* Called in a child that was forked inside a hook: maps the windows (mappings of the chunks) a
 * second time and uses those from now on, so that pages of the old ones, which the hook may still
 * write to, can be replaced. false: no memory. */
bool ag_chunk_supply_map_again(void);

/* Unmaps the windows. No thread may use them any more. */
void ag_chunk_supply_unmap(void);

#endif
