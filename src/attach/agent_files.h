/* agent_files.h: how a process gets the files of the agent: the agent itself and the live file. It
 * opens them by their paths or, if it does not see them there because it is in another mount
 * namespace (a container), they are passed to it as descriptors. */
#ifndef AG_AGENT_FILES_H
#define AG_AGENT_FILES_H

#include <stdbool.h>

#include "attach_state.h"

enum { AG_FILE_AGENT, AG_FILE_LIVE, AG_FILE_LIVE_LOCK, AG_AGENT_FILES };
enum { AG_LOADER_PATH_BYTES = 64 };

struct ag_agent_files {
    const char *agent, *live; /* paths */
    bool are_passed;
    /* descriptors of this process, and of the thread that loads the agent; -1: not open.
     * AG_FILE_LIVE_LOCK is the live file again, with an open file description of its own. */
    int fds[AG_AGENT_FILES], theirs[AG_AGENT_FILES];
};

/* Decides how the process gets the files, and opens them if they have to be passed. Returns 0 or a
 * negative errno with a message; ag_agent_files_close has to be called in any case. */
int ag_agent_files_open(struct ag_agent_files *files, struct ag_attach *attach, const char *agent,
                        const char *live, char ret_message[512]);
void ag_agent_files_close(struct ag_agent_files *files);
/* The next two functions are called between ag_attach_begin_call and ag_remote_call_end. */

/* Passes the files, and writes the path under which the loader of the process finds the agent.
 * Returns 0 or a negative errno with a message. */
int ag_agent_files_pass(struct ag_agent_files *files, struct ag_attach *attach,
                        char ret_path[AG_LOADER_PATH_BYTES], char ret_message[512]);
/* Closes the descriptors that are open in the process. */
void ag_agent_files_close_theirs(struct ag_agent_files *files, struct ag_attach *attach);

#endif
