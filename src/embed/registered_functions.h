/* registered_functions.h: functions that a program registered for counters and stacks, numbered
 * from 1. The trace defines each function by a frame record with the same number. */
#ifndef AG_REGISTERED_FUNCTIONS_H
#define AG_REGISTERED_FUNCTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "format/counter_set.h"

enum {
    AG_REGISTERED_FUNCTION_PAGE = 1024,
    AG_REGISTERED_FUNCTION_PAGES = (AG_REGISTERED_FUNCTIONS_MOST + 1) / AG_REGISTERED_FUNCTION_PAGE,
};
struct ag_registered_function {
    const char *name, *file, *runtime; /* in mapped memory, never moved */
    uint32_t line, column, end_column;
    uint32_t next; /* the next number with the same hash; 0: none */
};
struct ag_registered_functions { /* zero-initialized */
    struct ag_registered_function *_Atomic pages[AG_REGISTERED_FUNCTION_PAGES];
    uint32_t heads[4096]; /* index: a hash; the first number with this hash, 0: none. Protected by
                           * the caller's lock. */
    _Atomic uint32_t count;
};

/* Returns the number of a function. A function without a number gets one, and *ret_is_new is set to
 * true. Returns 0 if there are too many functions, or no memory. The caller makes sure that only
 * one thread is in this function. */
uint32_t ag_registered_functions_intern(struct ag_registered_functions *functions,
                                        const struct ag_registered_function *wanted,
                                        bool *ret_is_new);
/* NUMBER is at least 1 and at most the count. May be called by any thread and signal handler. */
const struct ag_registered_function *ag_registered_functions_get(
    const struct ag_registered_functions *functions, uint32_t number);

#endif
