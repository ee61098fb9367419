/* first_environment.h: the environment with which the program was started. */
#ifndef AG_FIRST_ENVIRONMENT_H
#define AG_FIRST_ENVIRONMENT_H

/* The environment as the kernel made it, ended by NULL. NULL: it is not known. Call the functions
 * of this file from the thread that starts the agent (allogram's library in the program). */
char **ag_first_environment(void);
/* Does what getenv did when the program was started: returns the value of the variable NAME, or
 * NULL. Unlike getenv, this function works before the libc is initialized, is never a function of
 * the program, and ignores later changes. The value lies where the kernel put it, and stays
 * valid. */
const char *ag_first_environment_value(const char *name);

#endif
