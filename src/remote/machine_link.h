/* machine_link.h: virtual machines that have a name, and a protocol by which they can be asked to
 * record themselves: `allogram attach NAME`, `allogram control NAME`.
 *
 * The machine joins a recording session (writer/live_session.h) that the caller made, and leaves
 * the session at the end. Each kind of machine is defined by a runtime (base/runtimes.h). A link
 * may be used by one thread only. Texts come from another process and are untrusted: escape them
 * when printing. */
#ifndef AG_MACHINE_LINK_H
#define AG_MACHINE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_link; /* a connection to a machine */

struct ag_link_place {
    const char *name;   /* of the machine */
    const char *option; /* the value of the kind's option; NULL: not given */
    /* folder of the library that the machine loads; NULL: the machine loads nothing */
    const char *agent_folder;
    char *(*variable)(const char *name); /* reads an environment variable; NULL: not set */
};

struct ag_link_options {
    const char *live_path; /* path of the session's live file (the file of its shared memory), which
                            * the machine maps */
    bool is_exact;         /* count every call; otherwise only garbage collections are recorded */
    const char *const *processes, *const *functions; /* the processes and functions to record, as
                                                      * typed by the user; no element means all */
    size_t n_processes, n_functions;
};

enum ag_link_event {
    AG_LINK_QUIET, /* no event arrived */
    AG_LINK_STOP,  /* the machine was asked to end the recording */
    AG_LINK_RESET, /* the machine was asked to begin a new trace */
    AG_LINK_DUMP,  /* the machine was asked to dump what was counted until now */
    AG_LINK_GONE,  /* the machine does not respond any more */
};

enum { AG_LINK_TEXT_BYTES = 512 };

/* The machine's memory consists of parts, such as "atoms"; the entries of a part are what its
 * memory belongs to, such as a table. Numbers that the machine does not know are -1. */
enum { AG_LINK_PARTS_MOST = 16, AG_LINK_NAME_BYTES = 192 };
struct ag_link_memory_entry {
    char name[AG_LINK_NAME_BYTES], owner[AG_LINK_NAME_BYTES]; /* owner: "" if there is none */
    int64_t bytes, count; /* `count` counts what the part's count_name says */
};
struct ag_link_memory_part {
    char name[AG_LINK_NAME_BYTES];
    /* -1: the bytes of this part's entries are already counted in other parts */
    int64_t bytes;
    int64_t count, limit; /* number of the part's objects, and the most that the machine allows */
    char count_name[AG_LINK_NAME_BYTES]; /* what `count` of an entry counts; "": nothing */
    /* true: all owners are listed, so an owner without an entry did not exist when the memory was
     * read; false: an owner without an entry may have been too small to be listed */
    bool is_whole;
    struct ag_link_memory_entry *entries; /* freed by the caller */
    size_t n_entries;
};
struct ag_link_memory { /* the bytes of the parts add up to what the machine says it uses */
    char version[AG_LINK_NAME_BYTES]; /* release of the machine */
    struct ag_link_memory_part parts[AG_LINK_PARTS_MOST];
    size_t n_parts;
};

/* Functions with a text return 0, or a negative errno with one line in the text. */
struct ag_link_kind {
    const char *runtime;
    /* Name, without dashes, of an option that this kind adds to `attach` and `control`; the
     * option's value is the name of a file. NULL: none. */
    const char *option, *option_help;
    bool (*takes)(const char *name); /* whether NAME can be the name of a machine of this kind */
    /* Connects to the machine at PLACE. The text is an error message, if the result is negative. */
    int (*open)(const struct ag_link_place *place, struct ag_link **ret_link,
                char ret_text[AG_LINK_TEXT_BYTES]);
    /* Closes the connection, and ends the machine's recording for this link. LINK may be NULL.
     * Returns NULL. */
    struct ag_link *(*close)(struct ag_link *link);
    /* the pid of the machine in its own PID namespace */
    uint32_t (*pid)(const struct ag_link *link);
    int (*fd)(const struct ag_link *link); /* the descriptor of the connection; when it is readable,
                                            * call next */
    /* Makes the machine record. On failure nothing is changed. On success the text is a remark, or
     * "". */
    int (*start)(struct ag_link *link, const struct ag_link_options *options,
                 char ret_text[AG_LINK_TEXT_BYTES]);
    /* The next event, without waiting. Called at least every ten seconds. */
    enum ag_link_event (*next)(struct ag_link *link);
    /* Makes the machine stop recording. Afterwards no code of allogram runs in the machine, except
     * if IS_AGAIN is true: then `start` is called next (after AG_LINK_RESET). On success the text
     * is a remark, or "". */
    int (*stop)(struct ag_link *link, bool is_again, char ret_text[AG_LINK_TEXT_BYTES]);
    /* Performs ACTION: pause, resume, reset, dump or stop. Can be called on any link, not only on
     * the one that started the recording. For a reset, it returns when the next recording has
     * begun. */
    int (*control)(struct ag_link *link, const char *action, char ret_text[AG_LINK_TEXT_BYTES]);
    /* Asks what the machine's memory consists of. Nothing is recorded. When the link is closed, or
     * the command is killed, the machine removes allogram's code. On failure ret_memory has no
     * entries. */
    int (*memory)(struct ag_link *link, struct ag_link_memory *ret_memory,
                  char ret_text[AG_LINK_TEXT_BYTES]);
    /* Finds the name by which the process PID can be reached, without connecting to the process;
     * false: there is none. */
    bool (*name_of)(uint32_t pid, char ret_name[AG_LINK_NAME_BYTES]);
};

#endif
