/* process_title.c: reads the names, the user and the limit of the address space of a process from
 * outside, for the writer. The kernel shows the command line from the memory of the process, which
 * the program may overwrite: postgres writes "postgres: checkpointer" over its arguments. */
#include "process_title.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "process_watch.h"

/* Finds the name of a user. Does not use getpwuid, which may query a server and load libraries. */
static void find_user(uint32_t user_id, char ret_user[AG_TITLE_USER_BYTES]) {
    FILE *users = fopen("/etc/passwd", "re");
    char *line = NULL;
    size_t capacity = 0;
    ret_user[0] = '\0';
    while (users && ret_user[0] == '\0' && getline(&line, &capacity, users) > 0) {
        char *password = strchr(line, ':'); /* NAME:PASSWORD:NUMBER:... */
        char *number = password ? strchr(password + 1, ':') : NULL;
        char *end = NULL;
        if (number && strtoul(number + 1, &end, 10) == user_id && end != number + 1 &&
            *end == ':') {
            (void)snprintf(ret_user, AG_TITLE_USER_BYTES, "%.*s", (int)(password - line), line);
        }
    }
    free(line);
    if (users) {
        (void)fclose(users); /* nothing was written */
    }
}

/* Returns the field arg_start of /proc/PID/stat; 0: the reader may not know it. */
static uint64_t read_command_address(uint32_t pid) {
    enum { FIRST_AFTER_NAME = 3, ARG_START = 48 }; /* numbers of fields, as in proc(5) */
    char text[1024];
    (void)ag_process_file_read(pid, "stat", text, sizeof(text)); /* "" on failure */
    const char *at = strrchr(text, ')'); /* the name may contain blanks and parentheses */
    for (int field = FIRST_AFTER_NAME; at && field <= ARG_START; field++) {
        at = strchr(at + 1, ' ');
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

void ag_process_title_read(uint32_t pid, struct ag_process_title *title) {
    struct ag_process_title read = {.address_space_limit_bytes = UINT64_MAX};
    char path[64];
    struct stat status;
    const size_t name_bytes = ag_process_file_read(pid, "comm", read.name, sizeof(read.name));
    (void)snprintf(path, sizeof(path), "/proc/%u", pid);
    if (pid == 0 || name_bytes == 0 || stat(path, &status) < 0) {
        return;
    }
    read.name[name_bytes - 1] = '\0'; /* in place of the newline */
    read.command_bytes =
        (uint32_t)ag_process_file_read(pid, "cmdline", read.command, sizeof(read.command));
    /* If a process is not dumpable, its files in /proc belong to root. So the user is read from its
     * status. */
    char text[2048];
    (void)ag_process_file_read(pid, "status", text, sizeof(text)); /* "" on failure */
    if (read.command_bytes == 0 && strstr(text, "\nVmSize:") == NULL) {
        return; /* the process has freed its memory, because it ends */
    }
    if (read.command_bytes == 0 && title->is_known) {
        /* The process has unmapped its arguments, or it executes a program at this moment: then the
         * next reading has the new command line. */
        memcpy(read.command, title->command, title->command_bytes);
        read.command_bytes = title->command_bytes;
    }
    while (read.command_bytes > 0 && read.command[read.command_bytes - 1] == '\0') {
        read.command_bytes--; /* NULs follow a title that is shorter than the overwritten
                               * arguments */
    }
    read.command[read.command_bytes++] = '\0';
    struct rlimit limit;
    if (prlimit((pid_t)pid, RLIMIT_AS, NULL, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        read.address_space_limit_bytes = limit.rlim_cur;
    }
    const char *line = strstr(text, "\nUid:");
    unsigned effective = status.st_uid;
    (void)!(line && sscanf(line, "\nUid: %*u %u", &effective) == 1);
    read.user_id = effective;
    if (title->is_known && title->user_id == read.user_id) {
        memcpy(read.user, title->user, sizeof(read.user));
    } else {
        find_user(read.user_id, read.user);
    }
    read.command_address = read_command_address(pid);
    read.is_known = true;
    *title = read;
}
