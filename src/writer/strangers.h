/* strangers.h: counts and names strangers: processes that the command started and that are not
 * recorded. Some have no agent (the recording library): static programs, programs with raised
 * privileges, programs with a cleared environment. Others have a root directory that contains
 * neither the agent nor the live file (the file that recorded processes share with the writer, the
 * process that makes the traces). */
#ifndef AG_STRANGERS_H
#define AG_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_writer;

enum { AG_STRANGERS_NAMES_BYTES = 96 };
/* Adds NAME to a list of names such as "sudo, ls", unless it is empty or in the list. If there is
 * no room, the list ends with "...". */
void ag_program_names_add(char names[AG_STRANGERS_NAMES_BYTES], const char *name);
struct ag_process_ids {  /* what is known of a recorded process; 0: unknown */
    uint32_t pid;        /* pid of the process in the writer's PID namespace */
    uint32_t parent;     /* pid of the parent in the writer's PID namespace */
    uint32_t own_pid;    /* pid of the process in its own PID namespace */
    uint32_t own_parent; /* pid of the parent in the PID namespace of the process */
    uint64_t pid_namespace;
    bool namespace_is_inherited; /* pid_namespace is that of the parent; the process itself may be
                                  * in another namespace */
};
struct ag_stranger {              /* a process that is a stranger, or may become one */
    uint32_t pid;                 /* pid of the process in the writer's PID namespace */
    struct ag_process_ids before; /* the process' ids before it executed another program, if
                                   * has_executed */
    uint64_t start_ticks;         /* start time of the process, as ag_process_start_ticks
                                   * (process_watch.h) returns it */
    uint64_t since_ns;            /* CLOCK_MONOTONIC when the process was first seen without a
                                   * recording */
    bool has_executed;            /* the process was recorded and executed another program */
    bool is_counted;              /* the process is counted as a stranger */
    bool is_seen;                 /* the current ag_strangers_look has found the process */
    char name[16];
};
/* Programs that a recorded process executed, or started in children, and whose recorders
 * (allogram's code in them) have not joined the session (the recording). Made when the process'
 * trace is sealed (completed). */
struct ag_missing_programs {
    struct ag_process_ids ids; /* of the recorded process */
    uint32_t n_programs;
    uint64_t since_ns; /* CLOCK_MONOTONIC when this struct was made */
    char name[16];     /* name of the program that executed the missing programs */
};
struct ag_strangers { /* zero-initialize */
    struct ag_stranger *known;
    size_t n_known;
    uint64_t next_look_ns; /* CLOCK_MONOTONIC */
    struct ag_missing_programs *missing;
    size_t n_missing;
    uint32_t n_unattributed; /* recorders that joined and whose programs were executed by an unknown
                              * process */
};

/* Looks for strangers among the descendants of the first process and of the recorded processes, if
 * next_look_ns has been reached. */
void ag_strangers_look(struct ag_strangers *strangers, const struct ag_writer *writer,
                       uint64_t now_ns);
/* Does a recording that has not ended belong to process PID, as far as the writer knows? */
bool ag_process_is_recorded(const struct ag_writer *writer, uint32_t pid);
/* Are IDS and JOINED the same process, before and after it executed a program whose recorder
 * joined the session? */
bool ag_process_is_same(const struct ag_process_ids *ids, const struct ag_process_ids *joined);
/* Is the process IDS the parent of the process JOINED, or was it the parent until it ended? */
bool ag_process_is_parent(const struct ag_process_ids *ids, const struct ag_process_ids *joined);

/* Notes that a recorded process has executed another program. */
void ag_strangers_executed(struct ag_strangers *strangers, const struct ag_process_ids *ids,
                           uint64_t now_ns);
/* Notes that this process is recorded. */
void ag_strangers_recorded(struct ag_strangers *strangers, const struct ag_process_ids *ids);
/* Notes the end of a recorded process, which executed N_PROGRAMS programs whose recorders have not
 * joined the session so far. */
void ag_strangers_executed_unseen(struct ag_strangers *strangers, const struct ag_process_ids *ids,
                                  uint32_t n_programs, const char *name, uint64_t now_ns);
/* Notes a recorder that joined and cannot be attributed to a recorded process. PARENT: pid of the
 * parent of the recorder's process, in the writer's PID namespace; 0: unknown. */
void ag_strangers_joined_alone(struct ag_strangers *strangers, const struct ag_writer *writer,
                               uint32_t parent);
/* May a recorder that is missing so far still join? Then it is too early to call
 * ag_strangers_conclude. */
bool ag_strangers_may_still_join(const struct ag_strangers *strangers, uint64_t now_ns);
/* Looks a last time. Returns the number of strangers; ret_names: each name once, "sudo, ls". */
uint32_t ag_strangers_conclude(struct ag_strangers *strangers, const struct ag_writer *writer,
                               uint64_t now_ns, char ret_names[AG_STRANGERS_NAMES_BYTES]);
void ag_strangers_done(struct ag_strangers *strangers);

#endif
