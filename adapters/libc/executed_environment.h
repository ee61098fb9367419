/* executed_environment.h: the environment for a program that the recorded program executes. */
#ifndef AG_LIBC_EXECUTED_ENVIRONMENT_H
#define AG_LIBC_EXECUTED_ENVIRONMENT_H

#include <alloca.h>
#include <stddef.h>

#include "base/compiler.h"

/* Notes the path of the agent's file. Call this function once, when the agent starts. */
void ag_agent_file_find(void) AG_HIDDEN;

/* The number of bytes that ag_environment_without_agent needs. Returns 0 if the environment need
 * not be changed: the executed program can load the agent, or LD_PRELOAD does not contain the
 * agent. This function and the next one may be called in signal handlers and in children of fork
 * and vfork. */
size_t ag_environment_bytes(char *const environment[]) AG_HIDDEN;
/* Returns a copy of the environment whose LD_PRELOAD does not contain the agent. The copy lies in
 * SPACE and refers to the strings of the original. */
char **ag_environment_without_agent(char *const environment[], void *space) AG_HIDDEN;

/* Defines NAME, the environment to pass: ENVIRONMENT, or a changed copy in the caller's stack
 * frame. This is a macro, because memory of alloca is valid only until the function that calls
 * alloca returns. */
#define AG_EXECUTED_ENVIRONMENT(name, environment)                       \
    char *const *name = (environment);                                   \
    const size_t name##_bytes = ag_environment_bytes(name);              \
    if (name##_bytes > 0) {                                              \
        name = ag_environment_without_agent(name, alloca(name##_bytes)); \
    }

#endif
