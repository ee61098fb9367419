/* attached_agent_runtimes.c: the table of runtimes in the agent (allogram's library) that `allogram
 * attach` loads into a running process. Only runtimes whose adapter can start in a running process
 * have an adapter here. */
#define AG_EARLY(folder) NULL
#include "inside_runtimes.def"
