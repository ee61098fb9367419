/* julia_imports.h: the functions that libjulia imports and that the adapter hooks. */
#ifndef AG_JULIA_IMPORTS_H
#define AG_JULIA_IMPORTS_H

/* Installs the hooks. inside: an address in libjulia. Returns 0, or a negative errno with
 * *ret_name, the import that cannot be hooked; then no hook is installed. */
int ag_julia_imports_follow(const void *inside, const char **ret_name);

/* For a program that was already running: registers the code that was generated before. Called
 * while the world is stopped. */
void ag_julia_imports_follow_earlier_code(void);

/* Reports how much memory Julia holds, at the end. */
void ag_julia_report_memory(void);

/* Frees what a function of libjulia returned, in the same way as libjulia. */
void ag_julia_free(void *block);

#endif
