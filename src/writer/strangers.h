/* strangers.h: counts and names the processes that the command started and that are not recorded:
 * static programs, programs with raised privileges, processes with a cleared environment, and roots
 * that contain neither the agent nor the session. */
#ifndef AG_STRANGERS_H
#define AG_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_writer;

enum { AG_STRANGERS_NAMES_BYTES = 96 };
struct ag_stranger {
    uint32_t pid; /* in the writer's PID namespace */
    uint64_t start_ticks, since_ns;
    bool has_executed; /* it was recorded and executed another program */
    bool is_counted, is_seen;
    char name[16];
};
struct ag_strangers {
    struct ag_stranger *known;
    size_t n_known;
    uint64_t next_look_ns;
};

/* Looks at the descendants of the first process and of those that are recorded, when the last look
 * is long enough ago. */
void ag_strangers_look(struct ag_strangers *strangers, const struct ag_writer *writer,
                       uint64_t now_ns);
/* A recorded process has executed another program. */
void ag_strangers_executed(struct ag_strangers *strangers, uint32_t pid, uint64_t now_ns);
/* This process is recorded. */
void ag_strangers_recorded(struct ag_strangers *strangers, uint32_t pid);
/* Takes the last look. Returns how many processes are not recorded; ret_names: each name once,
 * "sudo, ls". */
uint32_t ag_strangers_conclude(struct ag_strangers *strangers, const struct ag_writer *writer,
                               uint64_t now_ns, char ret_names[AG_STRANGERS_NAMES_BYTES]);
void ag_strangers_done(struct ag_strangers *strangers);

#endif
