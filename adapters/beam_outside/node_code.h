/* node_code.h: which function an address of generated code belongs to, with file and line. */
#ifndef AG_NODE_CODE_H
#define AG_NODE_CODE_H

#include <allogram/inspector.h>

struct node_function {
    uint64_t low, high; /* [low, high) */
    const char *name;   /* "lists:map/2"; in one of the files */
    const uint8_t *lines, *lines_end;
    uint64_t base; /* of the module: what the offsets of lines count from */
    uint32_t n_lines;
    bool is_fragment; /* shared code, no function of anybody's */
};
struct node_code { /* all zero: empty */
    struct node_function *items;
    size_t n, capacity;
    uint64_t low, high; /* all items lie between */
    struct node_code_file *files;
    uint32_t n_files;
    size_t file_bytes;
};

/* What the target tells debuggers, anew; on failure the code stays as it was. 0, -ENOENT, -EBADMSG:
 * damaged; -EAGAIN; -ENOMEM. */
int node_code_load(struct node_code *code, struct allogram_target *target);
/* Appends the ranges of one symbol file, unless they lie where those of an earlier call do; exposed
 * for tests and fuzzing. -EBADMSG: damaged. Call node_code_sort after the last. */
int node_code_add(struct node_code *code, const void *file, size_t n_bytes);
void node_code_sort(struct node_code *code);
void node_code_clear(struct node_code *code);

/* The function whose code holds ADDRESS, or NULL. */
const struct node_function *node_code_find(const struct node_code *code, uint64_t address);
/* Code that no programmer wrote: fragments, and what begins and ends processes. */
bool node_function_is_plumbing(const struct node_function *function);
/* The line of ADDRESS: false when none is known. The file's name lives as long as the code. */
bool node_function_line(const struct node_function *function, uint64_t address,
                        const char **ret_file, uint32_t *ret_line);

#endif
