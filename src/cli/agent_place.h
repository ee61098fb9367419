/* agent_place.h: finds the shared object that is preloaded into programs. */
#ifndef AG_AGENT_PLACE_H
#define AG_AGENT_PLACE_H

enum { AG_AGENT_PLACE_BYTES = 4096 };

/* Looks at $ALLOGRAM_AGENT, then for liballogram-agent.so beside this program, in ../lib/allogram,
 * and in its build tree. 0, or negative errno with one line in ret_message: it is in none of these,
 * or at a path that LD_PRELOAD cannot contain. */
int ag_agent_place_find(char ret_path[AG_AGENT_PLACE_BYTES], char ret_message[512]);
/* The same for the objects that `attach` loads into a process, which lie beside the other: without
 * and with adapters of runtimes. */
#define AG_AGENT_ATTACHED "liballogram-attached.so"
#define AG_AGENT_ATTACHED_RUNTIMES "liballogram-attached-runtimes.so"
int ag_agent_place_find_attached(const char *name, char ret_path[AG_AGENT_PLACE_BYTES],
                                 char ret_message[512]);

#endif
