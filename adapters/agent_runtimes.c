/* agent_runtimes.c: the table of runtimes in the preloaded agent. Every runtime has its adapter
 * here. */
#define AG_EARLY(folder) &ag_adapter_##folder
#include "inside_runtimes.def"
