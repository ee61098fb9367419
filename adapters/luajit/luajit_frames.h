/* luajit_frames.h: the Lua frames of LuaJIT's states. */
#ifndef AG_LUAJIT_FRAMES_H
#define AG_LUAJIT_FRAMES_H

#include "luajit_runtime.h"
#include "record/managed_frames.h"

/* A call of a Lua function. */
struct ag_luajit_call {
    uintptr_t proto, pc; /* pc: the address after the instruction that runs; 0: unknown */
    uint32_t slot, next; /* index of the frame in the stack, and of the frame that it called; next
                          * 0: none */
    /* Active calls from C into Lua divide the Lua stack into segments. The number of the call's
     * segment; 0: the innermost one. */
    uint32_t segment;
    uint32_t n_runs; /* in a memo: how many of its runs begin at this call or further out */
};
/* Reads the calls of L from the innermost outward. */
struct ag_luajit_reader {
    uintptr_t stack; /* the address of slot 0 of the Lua stack */
    /* slot, next, segment, pc: of the frame that is read next, as in ag_luajit_call. n_slots: the
     * size of the Lua stack. */
    uint32_t slot, next, segment, n_slots;
    uintptr_t pc;
};
/* base: the first slot of the innermost frame. */
void ag_luajit_read_begin(struct ag_luajit_reader *reader, uintptr_t L, uintptr_t base);
/* Returns false if there are no more calls, or if they cannot be read. */
bool ag_luajit_read(struct ag_luajit_reader *reader, struct ag_luajit_call *ret_call);
/* The line of the instruction before this pc; 0: unknown. */
uint32_t ag_luajit_line(uintptr_t proto, uintptr_t pc);

/* The calls of one lua_State, remembered from one walk of its stack to the next. */
struct ag_luajit_memo {
    uintptr_t L; /* 0: empty */
    /* recording: ag_stacks_recording() when the runs got their nodes in the stack tree. capacity:
     * elements of each array; the arrays are one mapping. */
    uint32_t recording, capacity;
    uint32_t n_calls, n_runs;
    uint32_t n_inner; /* segments inside of the innermost Lua call; they have only C functions */
    /* is_partial: L has callers of calls[0] that are not in the memo. has_unknown: the function or
     * the line of a call in the memo was not determined. is_used: by the current walk. */
    bool is_partial, has_unknown, is_used;
    struct ag_luajit_call *calls; /* the active calls, the outermost first */
    struct ag_luajit_call *read;  /* the calls that the last walk read, the innermost first */
    struct ag_run_frame *frames;  /* of `calls` */
    struct ag_frame_run *runs;    /* a run: the frames of one segment */
};
struct ag_luajit_known {
    uintptr_t proto; /* 0: free */
    uint32_t function;
};
enum { AG_LUAJIT_MEMOS = 8, AG_LUAJIT_KNOWN_FIRST = 512 };
/* What is known about the frames of one state (global_State), which is used by one thread at a
 * time. */
struct ag_luajit_frames {
    uintptr_t global;      /* the global_State; 0: not made yet, or closed */
    uintptr_t trace_frame; /* If compiled code allocates: the interpreter's native frame that
                            * entered this code. 0: none */
    uintptr_t moving;      /* the stack that is being reallocated; 0: none */
    uint32_t next_memo;
    struct ag_luajit_memo memos[AG_LUAJIT_MEMOS];
    uint32_t n_known, known_capacity;
    struct ag_luajit_known *known; /* hash table of the functions that were seen, by proto */
    struct ag_luajit_known first_known[AG_LUAJIT_KNOWN_FIRST];
};
/* The frames of the state that L belongs to; NULL: the state is not recorded. In
 * luajit_adapter.c. */
struct ag_luajit_frames *ag_luajit_frames_of(uintptr_t L);

/* The state is about to allocate in this thread. From now on, stacks that are recorded in this
 * thread have the Lua frames of the state. */
void ag_luajit_frames_enter(struct ag_luajit_frames *frames);
/* A block is freed: if it is a function's code, forgets the function. */
void ag_luajit_frames_freed(struct ag_luajit_frames *frames, const void *block, size_t bytes);
/* The state is closed: forgets everything. */
void ag_luajit_frames_end(struct ag_luajit_frames *frames);

#endif
