/* selection.c: which functions and processes of a node are counted, for the tracer (tracer.c). */
#include "selection.h"

#include <string.h>

struct ag_selection ag_selection;

/* The atom '_' stands for any value. */
static bool read_function(ErlNifEnv *env, ERL_NIF_TERM term, struct ag_selected_function *ret) {
    const ERL_NIF_TERM *parts, any = enif_make_atom(env, "_");
    int n_parts;
    unsigned arity = UINT32_MAX;
    if (!enif_get_tuple(env, term, &n_parts, &parts) || n_parts != 3 ||
        (parts[2] != any && !enif_get_uint(env, parts[2], &arity))) {
        return false;
    }
    *ret = (struct ag_selected_function){.module = parts[0] == any ? 0 : parts[0],
                                         .function = parts[1] == any ? 0 : parts[1],
                                         .arity = arity};
    return true;
}

static bool read_process(ErlNifEnv *env, ERL_NIF_TERM term, struct ag_selection *selection) {
    const ERL_NIF_TERM *parts;
    int n_parts;
    if (!enif_get_tuple(env, term, &n_parts, &parts) || n_parts != 2) {
        return false;
    }
    if (parts[0] == enif_make_atom(env, "name")) {
        selection->names[selection->n_names++] = parts[1];
    } else if (parts[0] == enif_make_atom(env, "pid")) {
        selection->pids[selection->n_pids++] = parts[1];
    } else {
        return read_function(env, parts[1],
                             &selection->initial_calls[selection->n_initial_calls++]);
    }
    return true;
}

bool ag_selection_set(ErlNifEnv *env, ERL_NIF_TERM functions, ERL_NIF_TERM processes) {
    static struct ag_selection selection;
    ERL_NIF_TERM head;
    unsigned n_functions, n_processes;
    memset(&selection, 0, sizeof selection);
    if (!enif_get_list_length(env, functions, &n_functions) || n_functions > AG_SELECTED_MOST ||
        !enif_get_list_length(env, processes, &n_processes) || n_processes > AG_SELECTED_MOST) {
        return false;
    }
    while (enif_get_list_cell(env, functions, &head, &functions)) {
        if (!read_function(env, head, &selection.functions[selection.n_functions++])) {
            return false;
        }
    }
    while (enif_get_list_cell(env, processes, &head, &processes)) {
        if (!read_process(env, head, &selection)) {
            return false;
        }
    }
    selection.has_functions = n_functions > 0;
    selection.has_processes = n_processes > 0;
    ag_selection = selection;
    return true;
}

static bool is_one_of(const struct ag_mfa *mfa, const struct ag_selected_function *list,
                      uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if ((list[i].module == 0 || list[i].module == mfa->module) &&
            (list[i].function == 0 || list[i].function == mfa->function) &&
            (list[i].arity == UINT32_MAX || list[i].arity == mfa->arity)) {
            return true;
        }
    }
    return false;
}

bool ag_selection_has_function(const struct ag_mfa *mfa) {
    return !ag_selection.has_functions ||
           is_one_of(mfa, ag_selection.functions, ag_selection.n_functions);
}

static bool is_term_of(ERL_NIF_TERM term, const ERL_NIF_TERM *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == term) {
            return true;
        }
    }
    return false;
}

bool ag_selection_has_process(ERL_NIF_TERM pid, ERL_NIF_TERM name,
                              const struct ag_mfa *initial_call) {
    return !ag_selection.has_processes || is_term_of(pid, ag_selection.pids, ag_selection.n_pids) ||
           (name != 0 && is_term_of(name, ag_selection.names, ag_selection.n_names)) ||
           (initial_call != NULL &&
            is_one_of(initial_call, ag_selection.initial_calls, ag_selection.n_initial_calls));
}
