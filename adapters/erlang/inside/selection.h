/* selection.h: which functions and processes of a node are counted, if `allogram run --trace` or
 * `--process` selects them (tracer.c). If neither option is given, all are counted. */
#ifndef AG_BEAM_SELECTION_H
#define AG_BEAM_SELECTION_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "function_handles.h"

enum { AG_SELECTED_MOST = 64 };
struct ag_selected_function { /* a term is 0 if any value is selected; arity UINT32_MAX: any */
    ERL_NIF_TERM module, function;
    uint32_t arity;
};
struct ag_selection {
    uint32_t n_functions, n_names, n_pids, n_initial_calls;
    struct ag_selected_function functions[AG_SELECTED_MOST];
    ERL_NIF_TERM names[AG_SELECTED_MOST], pids[AG_SELECTED_MOST];
    struct ag_selected_function initial_calls[AG_SELECTED_MOST];
    bool has_functions, has_processes;
};
extern struct ag_selection ag_selection AG_HIDDEN;

/* Sets the selection from allogram.erl: lists of {M, F, A}, and of {name, Atom}, {pid, Pid} and
 * {initial, {M, F, A}}. An empty list selects all. Called before anything is traced. Returns false
 * if a list is too long, or has another form. */
bool ag_selection_set(ErlNifEnv *env, ERL_NIF_TERM functions, ERL_NIF_TERM processes);
bool ag_selection_has_function(const struct ag_mfa *mfa);
/* Whether --process selects the process. NAME 0: it has no registered name. INITIAL_CALL NULL: it
 * is not known. */
bool ag_selection_has_process(ERL_NIF_TERM pid, ERL_NIF_TERM name,
                              const struct ag_mfa *initial_call);

#endif
