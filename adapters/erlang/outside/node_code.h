/* node_code.h: finds the function, file and line of an address of an Erlang node's generated
 * code. */
#ifndef AG_NODE_CODE_H
#define AG_NODE_CODE_H

#include <allogram/inspector.h>

struct node_function {
    uint64_t low, high; /* [low, high) */
    const char *name;   /* "lists:map/2"; points into one of the files */
    const uint8_t *lines, *lines_end;
    uint64_t base; /* start of the module's code, from which the offsets of lines count */
    uint32_t n_lines;
    bool is_fragment; /* shared code that belongs to no function */
};
struct node_code { /* all zero: empty */
    struct node_function *items;
    size_t n, capacity;
    uint64_t low, high; /* all items are in this range */
    struct node_code_file *files;
    uint32_t n_files;
    size_t file_bytes;
};

/* Reads the code map that the target registers for debuggers. On failure CODE stays as it was.
 * Returns 0; -ENOENT; -EBADMSG: damaged; -EAGAIN: the map changed during each attempt; -ENOMEM. */
int node_code_load(struct node_code *code, struct allogram_target *target);
/* Appends the ranges of one symbol file, unless they overlap ranges of an earlier call. Exposed for
 * tests and fuzzing. -EBADMSG: damaged. Call node_code_sort after the last file. */
int node_code_add(struct node_code *code, const void *file, size_t n_bytes);
void node_code_sort(struct node_code *code);
void node_code_clear(struct node_code *code);

/* The function whose code contains ADDRESS, or NULL. */
const struct node_function *node_code_find(const struct node_code *code, uint64_t address);
/* Code that no programmer wrote: fragments, and functions that begin and end processes. */
bool node_function_is_plumbing(const struct node_function *function);
/* The line of ADDRESS; false: unknown. The file's name is valid as long as the code. */
bool node_function_line(const struct node_function *function, uint64_t address,
                        const char **ret_file, uint32_t *ret_line);

#endif
