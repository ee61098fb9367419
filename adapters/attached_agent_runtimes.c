/* attached_agent_runtimes.c: the table of runtimes in the agent that is loaded into a running
 * process. Only runtimes whose adapter can start in a running process have an adapter here. */
#define AG_EARLY(folder) NULL
#include "inside_runtimes.def"
