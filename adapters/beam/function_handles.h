/* function_handles.h: {Module, Function, Arity} to the handle of a function in allogram.h. */
#ifndef AG_BEAM_FUNCTION_HANDLES_H
#define AG_BEAM_FUNCTION_HANDLES_H

#include <erl_nif.h>
#include <stdint.h>

#include "allogram/allogram.h"

#define AG_BEAM_RUNTIME "beam"

struct ag_mfa {
    ERL_NIF_TERM module, function;
    uint32_t arity;
};
/* False: there is no memory for the table. Once. */
int ag_function_handles_start(void);
/* 0: too many, or no memory. From any thread; takes a lock only for a function it never saw. */
allogram_function ag_function_handle(const struct ag_mfa *mfa);
/* Of a handle that it gave out; NULL: of another one. */
const struct ag_mfa *ag_function_mfa(allogram_function handle);
/* As its programmers write it: lists:map/2, and of Elixir Enum.map/2. */
void ag_function_name(const struct ag_mfa *mfa, char *ret_name, size_t bytes);

#endif
