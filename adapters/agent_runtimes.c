/* agent_runtimes.c: the table of runtimes in the preloaded agent: all that work inside of a
 * process. */
#define AG_EARLY(folder) &ag_adapter_##folder
#include "inside_runtimes.def"
