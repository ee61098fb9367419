/* julia_imports.h: replaces functions of the C library in libjulia's table of imports, to see
 * Julia's large blocks and generated code. */
#ifndef AG_JULIA_IMPORTS_H
#define AG_JULIA_IMPORTS_H

/* Installs the hooks. inside: an address in libjulia. Returns 0, or a negative errno with
 * *ret_name, the import that cannot be hooked; then no hook is installed. */
int ag_julia_imports_follow(const void *inside, const char **ret_name);

/* For a program that was already running: records the unwind tables of the code that Julia
 * generated before the hooks were installed. Called while a collection has stopped all threads. */
void ag_julia_imports_follow_earlier_code(void);

/* Records how much memory Julia's heaps hold. Called at the end of the recording. */
void ag_julia_report_memory(void);

/* Frees memory that a function of libjulia returned. Calls the free that libjulia imports. */
void ag_julia_free(void *block);

#endif
