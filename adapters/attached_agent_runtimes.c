/* attached_agent_runtimes.c: the table of runtimes in the agent that is loaded into a running
 * process. It has the adapters that can start in a running process. */
#define AG_EARLY(folder) NULL
#include "inside_runtimes.def"
