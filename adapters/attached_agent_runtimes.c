/* attached_agent_runtimes.c: the table of runtimes in the agent that is loaded into a running
 * process: those that can start late. */
#define AG_EARLY(folder) NULL
#include "inside_runtimes.def"
