/* agent_runtimes.c: the table of runtimes in the agent (allogram's library) that `allogram run`
 * preloads. Every runtime has its adapter here. */
#define AG_EARLY(folder) &ag_adapter_##folder
#include "inside_runtimes.def"
