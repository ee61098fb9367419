/* node.h: a running Erlang emulator (BEAM with the JIT), read from outside. A row of
 * layout.def gives the offsets of the fields in the structures of one version.
 *
 * Terms of this folder. *node*: one emulator. *process*: an Erlang process, unless said
 * otherwise. *fragment*: code of the JIT that belongs to no function and that functions share.
 * *target*: the operating system's process of the observed node. This folder's code neither calls
 * functions of the target nor stops it. The target may change a structure while it is read, so
 * every structure is copied once, checked by its invariants and then used. */
#ifndef AG_NODE_H
#define AG_NODE_H

#include <allogram/inspector.h>

#include "node_code.h"

/* How the word of a process identifier encodes the two numbers in <0.N.S>. */
enum node_identifier {
    NODE_IDENTIFIER_DATA, /* in 28 bits: N in the lower 15 bits, S in the 13 above them */
    NODE_IDENTIFIER_SLOT, /* the index in the process table, with its bits permuted as the
                           * table's fields say */
};

struct node_layout {
    const char *erts_version;
    /* struct process */
    uint32_t process_bytes;
    uint32_t process_registered; /* points to { .., .., process, port, name }; 0: no name */
    uint32_t process_heap_top, process_stack_top; /* heap_top: end of the allocated part; stack:
                                                   * [stack top, heap end) */
    uint32_t process_heap, process_heap_end;      /* the block that has the heap and the stack */
    uint32_t process_abandoned_heap; /* not 0 while a dirty scheduler (a thread for long
                                      * native calls) has to collect the process */
    uint32_t process_heap_words;     /* == (heap end - heap) / 8 */
    uint32_t process_instruction;    /* where the process continues, or last called native code */
    uint32_t process_queue;          /* messages that the process has moved to its own queue */
    uint32_t process_incoming;       /* messages that the process has not moved yet */
    uint32_t process_current;    /* points to {module, function, arity} while the process waits in a
                                      * function without a frame */
    uint32_t process_high_water; /* below this address: survivors of the last minor
                                      * collection */
    uint32_t process_old_heap, process_old_top, process_old_end; /* the heap of older survivors */
    uint32_t process_minor_count; /* 16 bits: minor collections since the last major one */
    uint32_t process_off_heap;    /* the list of terms that refer to memory outside of the heap */
    uint32_t process_writable;    /* such a list for binaries that are being appended to */
    uint32_t process_fragments;   /* the list of heap fragments (parts of the heap outside of
                                      * its block) that the process owns */
    uint32_t process_fragment_words; /* words of these fragments */
    uint32_t process_state;          /* 32 bits of flags */
    /* erts_proc, the table of processes: its size; offsets of the pointer to the slots, of the
     * number of slots, and of the size of struct process */
    uint32_t table_bytes, table_slots, table_size, table_element_bytes;
    enum node_identifier identifier;
    /* a term that refers to a binary outside of the heap: its first word, and the offset of the
     * binary; in the binary, the offset of its size */
    uint64_t reference_header;
    uint32_t reference_binary, binary_bytes;
    /* schedulers, an array of structures: the size of an element; in it, the offset of the pointer
     * to the process that the scheduler runs */
    uint32_t scheduler_stride, scheduler_process;
};

/* Of process_state, in all versions: ERTS_PSFLG_* */
enum {
    NODE_STATE_FREE = 1 << 10, /* exiting, and no longer visible */
    NODE_STATE_EXITING = 1 << 11,
    NODE_STATE_RUNNING = 1 << 15, /* runs Erlang code on a normal scheduler */
};
enum { NODE_PROCESS_MOST_BYTES = 1024 };
/* A copy of a process that is not checked yet. */
struct node_process {
    uint64_t address;
    uint64_t words[NODE_PROCESS_MOST_BYTES / 8];
};

enum node_scheduler_kind { NODE_SCHEDULER_NORMAL, NODE_SCHEDULER_CPU, NODE_SCHEDULER_IO };
enum { NODE_SCHEDULER_KINDS = 3, NODE_SCHEDULERS_MOST = 1024 };

struct node {
    struct allogram_target *target;
    const struct node_layout *layout;
    char version[64]; /* "OTP 25, ERTS 13.1.5" */
    struct node_code code;
    uint64_t code_stamp;                /* changes when the target's list of code changes */
    uint64_t caught_up_ns;              /* time of the last check whether the code map has changed;
                                         * the check is made for an address in no function */
    uint64_t process_table, no_process; /* no_process marks slots that are being filled */
    uint64_t atom_table;
    struct {
        uint64_t array;
        uint32_t n;
    } schedulers[NODE_SCHEDULER_KINDS];
    struct allogram_target_symbol dirty_main; /* the loop of dirty schedulers */
    struct node_kernel *kernel;               /* programs in the kernel; NULL: not loaded */
    struct node_capture *capture;             /* reads process states at the time of a sample; NULL:
                                               * they are read afterwards */
    struct node_collections *collections;     /* NULL: collections are not watched */
};

/* Reads the word at ADDRESS of the target. Returns 0, or the negative errno of the read. */
int node_read_word(struct node *node, uint64_t address, uint64_t *ret_word);

/* ---- one process ------------------------------------------------------------------------- */

uint64_t node_process_word(const struct node_process *process, uint32_t offset);
/* Returns 0, or the negative errno of the read. Check the copy with node_process_is_sound before
 * use. */
int node_read_process(struct node *node, uint64_t address, struct node_process *ret_process);
/* heap <= heap top <= stack top <= heap end, and the sizes agree. */
bool node_process_is_sound(const struct node *node, const struct node_process *process);
/* Writes an identifier as "<0.83.0>". */
enum { NODE_IDENTIFIER_BYTES = 40 };
int node_identifier_text(struct node *node, uint64_t id, char ret_text[NODE_IDENTIFIER_BYTES]);

/* ---- names -------------------------------------------------------------------------------- */

enum { NODE_ATOM_BYTES = 256 * 4 + 1, NODE_FUNCTION_BYTES = 2 * NODE_ATOM_BYTES + 16 };
/* The text of an atom, without quotes; -EBADMSG if the term is not an atom. */
int node_atom_text(struct node *node, uint64_t term, char ret_text[NODE_ATOM_BYTES]);
/* Writes "module:function/arity" for the three words at ADDRESS. */
int node_function_text(struct node *node, uint64_t address, char ret_text[NODE_FUNCTION_BYTES]);

/* Reads the code map (the target's list of generated functions with their addresses) again if the
 * map has changed, at a limited rate. Returns true if the map was read. */
bool node_code_catch_up(struct node *node);

/* ---- parts of the inspector ---------------------------------------------------------------- */

int node_report_processes(struct node *node, struct allogram_answers *answers);
int node_report_allocators(void *state, struct allogram_answers *answers);
/* Checks the layout with the processes of the node. Returns 0, or -EBADMSG if they contradict
 * it. */
int node_check_processes(struct node *node);

#endif
