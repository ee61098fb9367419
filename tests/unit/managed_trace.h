/* managed_trace.h: a trace of a program with two runtimes (language virtual machines), for tests of
 * readers. The trace has managed frames (frames of a runtime's own functions) between native ones,
 * function counters (calls, words and time of functions by call path) of several threads and
 * processes, and collections. The numbers below were computed by hand.
 *
 * The program has the pid 4711 and begins 1 ms after its session (the recording); the times below
 * are relative to the program's begin.
 *
 * Stacks, outermost frame first. The runtimes are lua and beam. An address 0x... is a native frame:
 *   19  0x1001, main chunk script.lua:3, build script.lua:12, 0x2001
 *   21  0x1001, main chunk script.lua:3, fib script.lua:20, fib script.lua:21
 *   23  app:loop/1 app.erl:8, lists:map/2 lists.erl:1594
 *   24  0x1001, 0x3001
 *   25  app:loop/1 app.erl:8, a frame 99 that nothing defines
 * Blocks of malloc: 100 bytes at stack 19 (freed), 50 bytes at stack 23, 1000 at 24 and 8 at 25.
 * Blocks of the lua heap: 200 bytes at stack 21.
 *
 * Function counters: a tree has all call paths of one thread or process. A word has 8 bytes.
 * calls/words/ns by path:
 *   tree 1, lua, thread 100:     main 1/10/1000; main, build 4/400/2000; main, fib 2/20/500;
 *                                main, fib, fib 6/60/1500; main, fib, fib, build 3/30/300
 *   tree 2, beam, <0.80.0>:      loop 5/50/5000; loop, setelement 100/1200/1000; loop, map 2/8/100
 *   tree 3, beam, server:        map 1/2/50; map, setelement 25/300/250
 * Rows that do not count: an older snapshot of tree 1; a newer snapshot of tree 1 that was not
 * finished; tree 4, which was written before the counters were reset; rows of tree 5, of which the
 * trace has no functions record.
 * The own words of each function, and its accumulated words in parentheses: setelement 1500 (1500),
 * build 430 (430), fib 80 (110), loop 50 (1258), main chunk 10 (520), map 10 (310); in all 149
 * calls, 2080 words, 11700 ns. Counted separately from functions: 4 messages with 38 words in all,
 * 2 spawns (one with 12 words, one with an unknown number), and 9 events of the profiler itself
 * with 90 words in all.
 *
 * Collections: start and pause in us, runtime, kind, bytes before and after, bytes that were
 * needed, and the function that needed them:
 *   200, 100  lua  full    1000000  400000      -  build
 *   500,  50  beam minor    200000  100000   8000  lists:map/2, in <0.80.0>
 *   700, 250  beam major    300000   50000  64000  lists:map/2, in <0.80.0>
 *   900,   -  beam minor         -       -  16000  app:loop/1, in server; it never ended
 *   950,  10  beam minor         -       -      -  no known function
 * The program ends after 2000 us. */
#ifndef AG_MANAGED_TRACE_H
#define AG_MANAGED_TRACE_H

#include "format/encode.h"

/* Writes the finished trace to the empty file fd, which the function closes. Returns 0 or negative
 * errno. */
int ag_managed_trace_write(int fd);

/* Appends the trace's records: everything but the events and the end of the process. An error is
 * stored in the blob. */
void ag_managed_trace_records(struct ag_blob *blob);

#endif
