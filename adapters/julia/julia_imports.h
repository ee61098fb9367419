/* julia_imports.h: what libjulia asks of other libraries, where the adapter has to know of it. */
#ifndef AG_JULIA_IMPORTS_H
#define AG_JULIA_IMPORTS_H

/* inside: an address in libjulia. 0, or a negative errno with *ret_name, what cannot be followed;
 * then nothing of it is left in the way. */
int ag_julia_imports_follow(const void *inside, const char **ret_name);

/* Where the program ran already: the code that was made before. While the world stands still. */
void ag_julia_imports_follow_earlier_code(void);

/* How much memory Julia holds: at the end. */
void ag_julia_report_memory(void);

/* Gives back what a function of libjulia returned, as libjulia would. */
void ag_julia_free(void *block);

#endif
