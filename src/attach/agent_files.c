/* agent_files.c: gives a process the agent and the live file (the file of the memory that the agent
 * shares with allogram), for attaching.c. passed_files.c passes descriptors. */
#include "agent_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error_message.h"
#include "passed_files.h"
#include "remote/foreign_file.h"

_Static_assert((int)AG_AGENT_FILES <= (int)AG_PASSED_FILES_MOST, "all files fit in one message");

void ag_agent_files_close(struct ag_agent_files *files) {
    for (int i = 0; i < AG_AGENT_FILES; i++) {
        ag_descriptor_close(files->fds[i]);
        files->fds[i] = -1;
    }
}

int ag_agent_files_open(struct ag_agent_files *files, struct ag_attach *attach, const char *agent,
                        const char *live, char ret_message[512]) {
    *files = (struct ag_agent_files){.agent = agent, .live = live};
    for (int i = 0; i < AG_AGENT_FILES; i++) {
        files->fds[i] = files->theirs[i] = -1;
    }
    files->are_passed =
        !ag_attachable_sees(&attach->process, agent) || !ag_attachable_sees(&attach->process, live);
    int r = files->are_passed
                ? ag_attachable_check_passing(&attach->process, &attach->attachable, ret_message)
                : 0;
    for (int i = 0; i < AG_AGENT_FILES && r == 0 && files->are_passed; i++) {
        const char *path = i == AG_FILE_AGENT ? agent : live;
        files->fds[i] = i == AG_FILE_AGENT ? ag_foreign_file_open(path, AG_LINKS_FOLLOWED, NULL)
                                           : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (files->fds[i] < 0) {
            r = i == AG_FILE_AGENT ? files->fds[i] : -errno;
            (void)ag_error_message(ret_message, r, "%d (%s): cannot open %.300s to pass it: %s",
                                   attach->process.pid, attach->process.name, path, strerror(-r));
        }
    }
    return r;
}

int ag_agent_files_pass(struct ag_agent_files *files, struct ag_attach *attach,
                        char ret_path[AG_LOADER_PATH_BYTES], char ret_message[512]) {
    const char *operation = "";
    const int r = ag_passed_files_pass(&attach->call, attach->attachable.system_call, files->fds,
                                       AG_AGENT_FILES, files->theirs, &operation);
    if (r == -ESRCH) {
        return ag_remote_process_ended_error(&attach->process, ret_message);
    }
    if (r < 0) {
        return ag_error_message(
            ret_message, r,
            "%d (%s): is in another mount namespace, and files cannot be passed to it: %s: %s",
            attach->process.pid, attach->process.name, operation, strerror(-r));
    }
    /* thread-self and not self: the thread may have descriptors of its own. "./": if the program has
     * loaded a library under the usual name, the loader would return that library. */
    (void)snprintf(ret_path, AG_LOADER_PATH_BYTES, "/proc/thread-self/./fd/%d",
                   files->theirs[AG_FILE_AGENT]);
    return 0;
}

void ag_agent_files_close_theirs(struct ag_agent_files *files, struct ag_attach *attach) {
    for (int i = 0; i < AG_AGENT_FILES; i++) {
        ag_passed_files_close(&attach->call, attach->attachable.system_call, &files->theirs[i]);
    }
}
