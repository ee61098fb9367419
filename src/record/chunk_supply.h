/* chunk_supply.h: supplies a thread with its next chunk (64 KiB of the segment, the memory shared
 * with the writer process, for the thread's events), and limits how long the thread waits for
 * it. */
#ifndef AG_CHUNK_SUPPLY_H
#define AG_CHUNK_SUPPLY_H

#include "format/counter_set.h"
#include "recorder.h"

struct ag_thread;

/* Takes a chunk for the calling thread: the chunk that was returned last, or a chunk that was never
 * used. If no returned chunk is left and many chunks are in use, the function first waits a limited
 * time until the writer process returns a chunk, and again if no unused chunk is left (see
 * chunk_supply.c). Returns 0; -EAGAIN: no chunk was returned in time, or a signal handler forked
 * and this process is the child; -ENOMEM: the chunk could not be mapped. Async-signal-safe. */
int ag_chunk_supply_take(const struct ag_thread *thread, struct ag_chunk_control **ret_control,
                         uint64_t **ret_words);

/* Takes a chunk for function counters (format/counter_set.h) and fills it with zeros; never waits.
 * Returns its number; -1: there is no room, or this process is a forked child whose recording has
 * not begun. */
int64_t ag_chunk_supply_take_counters(enum ag_counter_chunk kind, unsigned char **ret_bytes);

/* Makes a second mapping of BYTES bytes of the live file (the file of the segment), from the file
 * offset that is mapped at MAPPED. NULL: no memory. */
void *ag_map_shared_again(void *mapped, uint64_t bytes);

/* Called in a child that was forked inside a hook (the code that records a call of malloc or free):
 * maps the windows (mappings of the chunks) a second time. From now on the recorder uses the new
 * windows, so that pages of the old windows, to which the hook may still write, can be replaced.
 * Returns false if there is no memory. */
bool ag_chunk_supply_map_again(void);

/* Unmaps the windows. No thread may use them during or after this call. */
void ag_chunk_supply_unmap(void);

#endif
