/* agent_place.h: finds the agent, the code that records inside a program. One shared object of the
 * agent is preloaded into new programs; two other shared objects are loaded into running processes.
 */
#ifndef AG_AGENT_PLACE_H
#define AG_AGENT_PLACE_H

#include <stdbool.h>

enum { AG_AGENT_PLACE_BYTES = 4096 };

/* Finds the preloaded agent: the file that $ALLOGRAM_AGENT names; if the variable is not set,
 * liballogram-agent.so in the folder of this program, in ../lib/allogram,
 * ../lib/x86_64-linux-gnu/allogram or ../lib64/allogram, or in the build tree. Returns 0 or a
 * negative errno. An error is described by one line in ret_message: the agent was not found, or its
 * path contains a character that LD_PRELOAD cannot contain. */
int ag_agent_place_find(char ret_path[AG_AGENT_PLACE_BYTES], char ret_message[512]);
/* `attach` loads one of two shared objects into a running process: one without adapters, and one
 * with adapters, which record virtual machines such as Lua (adapters/README.md). Both objects are
 * in the folder of the preloaded agent. ag_agent_place_find_attached finds the object called NAME.
 * Its return values are those of ag_agent_place_find. */
#define AG_AGENT_ATTACHED "liballogram-attached.so"
#define AG_AGENT_ATTACHED_RUNTIMES "liballogram-attached-runtimes.so"
int ag_agent_place_find_attached(const char *name, char ret_path[AG_AGENT_PLACE_BYTES],
                                 char ret_message[512]);
/* Finds the library NAME, which allogram itself loads: in the folder of this program, in the three
 * folders of an installation where ag_agent_place_find looks, or in BUILT, the library's folder in
 * the build tree, relative to the folder of this program. Returns false if the library was not
 * found. */
bool ag_agent_place_find_own(const char *name, const char *built,
                             char ret_path[AG_AGENT_PLACE_BYTES]);

#endif
