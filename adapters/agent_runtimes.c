/* agent_runtimes.c: the table of runtimes in the preloaded agent. It has all runtimes that have
 * an adapter. */
#define AG_EARLY(folder) &ag_adapter_##folder
#include "inside_runtimes.def"
