/* traced_processes.h: what is known of each traced process of the emulator. */
#ifndef AG_BEAM_TRACED_PROCESSES_H
#define AG_BEAM_TRACED_PROCESSES_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

#include "allogram/allogram.h"
#include "heap_growth.h"

enum { AG_PROCESS_NAME_BYTES = 128, AG_PROCESS_FIRST_LEVELS = 16 };
struct ag_level {         /* a function that is entered */
    uint32_t stack_words; /* of the process, when it was called; a tail call has its caller's */
    allogram_function function;
};
struct ag_traced_process {
    ERL_NIF_TERM pid;
    allogram_counters *counters;
    struct ag_heap_growth growth;
    struct ag_level *levels; /* as deep as allogram_depth(counters) */
    uint32_t n_levels, level_room;
    uint64_t returnable_words; /* counted as it was scheduled out, in the middle of a function */
    bool is_running;           /* its time counts */
    uint8_t last_kind;         /* of its last event, enum ag_event_kind */
    uint64_t last_clock;       /* at the end of it */
    struct ag_traced_process *next;
    struct ag_level first_levels[AG_PROCESS_FIRST_LEVELS]; /* all that most processes need */
};

/* NULL: it was never seen. By the thread that runs the process. */
struct ag_traced_process *ag_traced_process_find(ERL_NIF_TERM pid);
/* New where it was never seen. INITIAL_CALL "": not known. NULL: no memory. */
struct ag_traced_process *ag_traced_process_get(ERL_NIF_TERM pid, const char *name,
                                                const char *initial_call);
/* It has ended: its counters are written. */
void ag_traced_process_end(ERL_NIF_TERM pid);
/* Nothing is traced any more: all of them end. */
void ag_traced_processes_end_all(void);
/* Room for one level more. False: no memory. */
bool ag_traced_process_has_level(struct ag_traced_process *process);

#endif
