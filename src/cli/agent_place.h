/* agent_place.h: finds the agent: the shared object that is preloaded into programs, and the ones
 * that are loaded into running processes. */
#ifndef AG_AGENT_PLACE_H
#define AG_AGENT_PLACE_H

enum { AG_AGENT_PLACE_BYTES = 4096 };

/* Finds the agent: the file that $ALLOGRAM_AGENT names, or else liballogram-agent.so beside this
 * program, in an allogram folder of ../lib or ../lib64, or in the build tree. Returns 0, or a
 * negative errno with one line in ret_message: the agent is in none of these places, or its path
 * has a character that LD_PRELOAD cannot contain. */
int ag_agent_place_find(char ret_path[AG_AGENT_PLACE_BYTES], char ret_message[512]);
/* The objects that `attach` loads into a running process: one without, one with the adapters of
 * runtimes (adapters/README.md). They lie in the same folder as the preloaded agent.
 * ag_agent_place_find_attached finds the one called NAME, and returns like ag_agent_place_find. */
#define AG_AGENT_ATTACHED "liballogram-attached.so"
#define AG_AGENT_ATTACHED_RUNTIMES "liballogram-attached-runtimes.so"
int ag_agent_place_find_attached(const char *name, char ret_path[AG_AGENT_PLACE_BYTES],
                                 char ret_message[512]);

#endif
