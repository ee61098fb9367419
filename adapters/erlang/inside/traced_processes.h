/* traced_processes.h: keeps the state of each traced Erlang process. */
#ifndef AG_BEAM_TRACED_PROCESSES_H
#define AG_BEAM_TRACED_PROCESSES_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

#include "allogram/allogram.h"
#include "heap_growth.h"

#define AG_FUN_CALL "erlang:apply/2" /* the initial call of a process that was started with a fun */
enum { AG_PROCESS_NAME_BYTES = 128, AG_PROCESS_FIRST_LEVELS = 16 };
struct ag_level {         /* a function on the stack */
    uint32_t stack_words; /* number of words on the process' stack when the function was called; for
                           * a function that was called by a tail call: stack_words of its caller */
    allogram_function function;
};
struct ag_traced_process {
    ERL_NIF_TERM pid;
    allogram_counters *counters;
    const uint64_t *structure; /* the emulator's structure of the process, which exists while the
                                * process lives; NULL: unknown */
    struct ag_heap_growth growth;
    struct ag_level *levels; /* as many as allogram_depth(counters) */
    uint32_t n_levels, level_room;
    /* Functions that were called before the process was traced, the innermost first. Those with
     * stack_words <= levels[0].stack_words are the callers of the first level. */
    struct ag_level outer[AG_PROCESS_FIRST_LEVELS];
    uint32_t n_outer;
    bool knows_outer; /* the stack was searched for `outer` */
    bool is_whole;    /* the levels and `outer` are all functions on the stack */
    uint64_t
        returnable_words; /* words counted when the process was scheduled out; the function that
                                * allocated them may still give them back */
    ERL_NIF_TERM spawned; /* the process that it has spawned since the last event; 0: none */
    /* The process was started with a fun. Its first calls are those of erlang:apply/2 and of the
     * function of the fun. Its counters are made at the second call, so that they have the name of
     * this function: see ag_traced_process_begin. Until then, the four members `early_` keep what
     * the counters will count: words of the arguments, tuples that the tracer made, words before
     * the first call, and the first function. */
    bool is_unnamed;
    uint32_t early_tuples;
    uint64_t early_argument_words, early_words;
    allogram_function early_function; /* 0: none was called yet */
    bool is_running;                  /* the time since the last event is counted */
    uint8_t last_kind;                /* kind of the last event, enum ag_event_kind */
    uint64_t last_clock;              /* clock at the end of the last event */
    struct ag_traced_process *next;
    struct ag_level first_levels[AG_PROCESS_FIRST_LEVELS]; /* enough for most processes */
};

/* The entry of the process; NULL: it has none. Called by the thread that runs the process. */
struct ag_traced_process *ag_traced_process_find(ERL_NIF_TERM pid);
/* Like ag_traced_process_find, but adds an entry if the process has none. If NAME is NULL, the name
 * is the process identifier. INITIAL_CALL "": unknown. Returns NULL if there is no memory. */
struct ag_traced_process *ag_traced_process_get(ERL_NIF_TERM pid, const char *name,
                                                const char *initial_call);
/* Like ag_traced_process_get for a process that was started with a fun and arguments of WORDS
 * words: its counters are made by ag_traced_process_begin. */
struct ag_traced_process *ag_traced_process_get_unnamed(ERL_NIF_TERM pid, uint64_t words);
/* Makes the counters of an unnamed process. INITIAL_CALL: its first function. */
void ag_traced_process_begin(struct ag_traced_process *process, const char *initial_call);
/* Called when the process has ended: writes its counters and removes its entry. */
void ag_traced_process_end(ERL_NIF_TERM pid);
/* Called when tracing has ended: writes the counters of all processes and removes all entries. */
void ag_traced_processes_end_all(void);
/* Called when tracing has ended for a pause: from now on the entries say that the processes are
 * outside of all functions and that their heaps are unknown. */
void ag_traced_processes_lose_track(void);
/* Called before tracing begins again: calls ag_traced_process_end for all processes that ended
 * during the pause. */
void ag_traced_processes_end_dead(ErlNifEnv *env);
/* Makes room for one more level. Returns false if out of memory. */
bool ag_traced_process_has_level(struct ag_traced_process *process);

#endif
