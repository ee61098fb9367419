/* callers.h: finds the function that called a traced function; see callers.c. */
#ifndef AG_BEAM_CALLERS_H
#define AG_BEAM_CALLERS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "function_handles.h"
#include "process_layout.h"

/* Whether callers of known functions were found correctly; set by the tracer. */
extern bool ag_callers_are_known AG_HIDDEN;

/* Finds the emulator's function that maps an address of code to a function. Called when the library
 * is loaded. */
void ag_callers_start(void);
/* The function to which the innermost return address on the stack leads: at the event of a call,
 * the caller. If the caller ended with a tail call, it is the function to which the called function
 * returns. Returns false if it is not known. Called by the thread that runs the process. */
bool ag_caller_find(const struct ag_process_heap *heap, struct ag_mfa *ret_mfa);

struct ag_caller {
    struct ag_mfa mfa;
    uint32_t stack_words; /* from the return address into this function to the stack's end */
};
/* Like ag_caller_find, for all return addresses, the innermost first. Returns the number of
 * functions; more than MOST: there are more than were written. */
uint32_t ag_callers_find_all(const struct ag_process_heap *heap, struct ag_caller *ret_callers,
                             uint32_t most);

#endif
