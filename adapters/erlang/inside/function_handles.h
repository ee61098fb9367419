/* function_handles.h: maps {Module, Function, Arity} of an Erlang function to the number that
 * allogram_register_function (allogram.h) returned for the function, its handle. */
#ifndef AG_BEAM_FUNCTION_HANDLES_H
#define AG_BEAM_FUNCTION_HANDLES_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

#include "allogram/allogram.h"

#define AG_BEAM_RUNTIME "beam"

struct ag_mfa {
    ERL_NIF_TERM module, function;
    uint32_t arity;
};
/* Makes the table. Returns 0, or -ENOMEM. Called before the other functions of this file. */
int ag_function_handles_start(void);
/* Returns the handle of a function; 0: there are too many functions, or no memory. Callable from
 * any thread. Takes a lock only for a new function. */
allogram_function ag_function_handle(const struct ag_mfa *mfa);
/* The function of a handle from ag_function_handle; NULL: any other handle. */
const struct ag_mfa *ag_function_mfa(allogram_function handle);
/* Whether --trace selects the function of a handle from ag_function_handle. */
bool ag_function_is_selected(allogram_function handle);
/* Writes the name as programmers write it: lists:map/2, and for Elixir Enum.map/2. */
void ag_function_name(const struct ag_mfa *mfa, char *ret_name, size_t bytes);

#endif
