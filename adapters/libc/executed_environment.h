/* executed_environment.h: the environment for a program that the recorded program executes. */
#ifndef AG_LIBC_EXECUTED_ENVIRONMENT_H
#define AG_LIBC_EXECUTED_ENVIRONMENT_H

#include <alloca.h>
#include <stddef.h>

#include "base/compiler.h"

/* Notes the path of the agent's file. Call this function once, when the agent starts. */
void ag_agent_file_find(void) AG_HIDDEN;

struct ag_environment_change {
    /* the size of the changed copy; 0: the environment need not be changed, because the executed
     * program can load the agent, or LD_PRELOAD does not contain the agent */
    size_t bytes;
    size_t n_entries;     /* entries of the environment, without the NULL at its end */
    size_t preload_index; /* the entry with LD_PRELOAD */
};
/* This function and the next one may be called in signal handlers and in children of fork and
 * vfork. */
struct ag_environment_change ag_environment_look(char *const environment[]) AG_HIDDEN;
/* Returns a copy of the environment whose LD_PRELOAD does not contain the agent. The copy lies in
 * SPACE and refers to the strings of the original. */
char **ag_environment_without_agent(char *const environment[],
                                    const struct ag_environment_change *change,
                                    void *space) AG_HIDDEN;

/* Defines NAME, the environment to pass: ENVIRONMENT, or a changed copy in the caller's stack
 * frame. This is a macro, because memory of alloca is valid only until the function that calls
 * alloca returns. */
#define AG_EXECUTED_ENVIRONMENT(name, environment)                                              \
    char *const *name = (environment);                                                          \
    const struct ag_environment_change name##_change = ag_environment_look(name);               \
    if (name##_change.bytes > 0) {                                                              \
        name = ag_environment_without_agent(name, &name##_change, alloca(name##_change.bytes)); \
    }

#endif
