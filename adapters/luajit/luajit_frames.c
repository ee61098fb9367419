/* luajit_frames.c: adds the frames of Lua functions to the recorded stacks.
 *
 * 1. Native frames. LuaJIT's interpreter is one function of assembler code, with a native frame of
 * a fixed layout. The frame contains the lua_State that runs, its current pc, and the address of
 * the previous native frame of the interpreter for the same lua_State. The interpreter stores the
 * pc, and the base of the innermost frame in the lua_State, before it calls C code that may
 * allocate.
 *
 * 2. Lua frames. A frame on the Lua stack has two slots below its base: the function, and a link
 * to the calling frame. If C code called the function, the link has the kind AG_LUAJIT_BY_C. So the
 * frames between two such links (a segment) belong to one native frame of the interpreter.
 *
 *     native             Lua stack of L
 *       lj_tab_new         f  g (called by C)
 *       interpreter
 *       lua_call           c (a C function)  main (called by C)
 *       interpreter
 *       lua_pcall
 *
 * A native frame of lua_cpcall has no segment. Its number of results is negative.
 *
 * 3. Compiled code has no unwind tables. It runs in the native frame of the interpreter that
 * entered it. Meanwhile, the field jit_base of the global_State is the base of the frame in which
 * the code was entered. So the stack of a block that compiled code allocates consists of the caller
 * of the interpreter and its callers, the frames on the Lua stack, and a frame [compiled code].
 * Functions that were inlined into the compiled code have no frames.
 *
 * 4. Depth. The calls of each lua_State are remembered between walks (struct ag_luajit_memo), and a
 * walk reads only those that may have changed. For this, each call that is remembered gets a mark:
 * the tag of its function's slot is changed from "function" to "proto". When LuaJIT reads the slot,
 * it masks the tag off the value without checking it, and the mark stays in the slot. LuaJIT's
 * collector only tests whether the tag is one of a collectable object. Each new call, also a tail
 * call, writes its function into the slot, with the usual tag. So a call with a mark is the call
 * that was remembered at this slot, and its callers have not moved on since then. The marked call
 * itself may have moved on, and is read again.
 *
 * 5. Moments at which the frames cannot be read. While LuaJIT reallocates the stack of a lua_State,
 * the lua_State still points to the old stack. If the lua_State is running, or if its stack becomes
 * smaller, the adapter frees the old stack only at the next call of the allocator, so the frames
 * can be read (move_stack in luajit_adapter.c). Otherwise, and if there is no memory for this, the
 * frames of this lua_State and of those that called it are not added (`moving`). If a signal
 * handler interrupted the interpreter or a function that the interpreter called, no frames are
 * added to the stacks of the handler. */
#include "luajit_frames.h"

#include <stdatomic.h>
#include <string.h>

#include "allogram/allogram.h"
#include "base/pages.h"
#include "record/pc_classes.h"
#include "record/recorder.h"
#include "record/self_check.h"
#include "unwind/unwind_space.h"

enum { C_FRAMES_MOST = 256, CALLS_PER_DEPTH = 4, CALLS_READ_PER_DEPTH = 2, WORD_BYTES = 8 };

static __thread struct {
    struct ag_luajit_frames *frames;      /* of the state that allocated last; NULL: none */
    const struct ag_walked_frame *walked; /* the natives of the current walk; NULL: none */
    uint32_t n_used;
    struct ag_luajit_memo *used[AG_LUAJIT_MEMOS]; /* by the current walk */
} current __attribute__((tls_model("initial-exec")));

/* ---- reading ---- */

static uint64_t *slot_at(uintptr_t stack, uint32_t slot) {
    return (uint64_t *)(stack + (uintptr_t)slot * WORD_BYTES); // NOLINT(performance-no-int-to-ptr)
}

void ag_luajit_read_begin(struct ag_luajit_reader *reader, uintptr_t L, uintptr_t base) {
    const uintptr_t stack = ag_luajit_word(L, STATE_STACK);
    const uintptr_t slot = (base - stack) / WORD_BYTES - 1;
    const uint32_t n_slots = ag_luajit_int(L, STATE_SLOTS);
    *reader = (struct ag_luajit_reader){
        .stack = stack, .n_slots = n_slots, .slot = slot < n_slots ? (uint32_t)slot : 0};
}

/* Moves the reader to the caller of its frame. Returns false if the link is damaged. */
static bool read_link(struct ag_luajit_reader *reader) {
    enum { A_SHIFT = 8, A_MASK = 0xff, LINK_SLOTS = 2 };
    uint64_t link = *slot_at(reader->stack, reader->slot);
    uint64_t distance = link / WORD_BYTES;
    if ((link & AG_LUAJIT_KIND) == AG_LUAJIT_VARIADIC && distance < reader->slot) {
        reader->slot -= (uint32_t)distance;
        link = *slot_at(reader->stack, reader->slot);
        distance = link / WORD_BYTES;
    }
    const uint32_t slot = reader->slot;
    reader->next = slot;
    reader->pc = 0;
    if ((link & 3) == AG_LUAJIT_BY_LUA) {
        const uint32_t call = ag_luajit_int((uintptr_t)link - sizeof(uint32_t), 0);
        distance = LINK_SLOTS + (call >> A_SHIFT & A_MASK);
        reader->pc = (uintptr_t)link;
    } else if ((link & 3) == AG_LUAJIT_BY_C) {
        reader->segment++;
    } else if ((link & AG_LUAJIT_KIND) == AG_LUAJIT_BY_METAMETHOD && slot > 3) {
        if (*slot_at(reader->stack, slot - 3) == AG_LUAJIT_FFI_CALLBACK) {
            reader->segment++;
        } else {
            reader->pc = *slot_at(reader->stack, slot - 2);
        }
    }
    reader->slot = distance != 0 && distance < slot ? slot - (uint32_t)distance : 0;
    return reader->slot != 0;
}

bool ag_luajit_read(struct ag_luajit_reader *reader, struct ag_luajit_call *ret_call) {
    while (reader->slot > 1) { /* the lowest frame is that of the lua_State itself */
        const uint64_t function = *slot_at(reader->stack, reader->slot - 1);
        const uint64_t tag = AG_LUAJIT_TAG(function);
        const uintptr_t object = AG_LUAJIT_POINTER(function);
        const bool is_call = (tag == AG_LUAJIT_FUNCTION_TAG || tag == AG_LUAJIT_MARKED_TAG) &&
                             ag_luajit_byte(object, OBJECT_TYPE) == AG_LUAJIT_FUNCTION_TYPE &&
                             ag_luajit_byte(object, FUNCTION_KIND) == 0;
        if (is_call) {
            *ret_call = (struct ag_luajit_call){.proto = ag_luajit_word(object, FUNCTION_CODE) -
                                                         PROTO_BYTES,
                                                .pc = reader->pc,
                                                .slot = reader->slot,
                                                .next = reader->next,
                                                .segment = reader->segment};
        }
        (void)read_link(reader);
        if (is_call) {
            return true;
        }
    }
    return false;
}

uint32_t ag_luajit_line(uintptr_t proto, uintptr_t pc) {
    enum { BYTE_LINES = 256, SHORT_LINES = 65536 };
    const uintptr_t at = (pc - proto - PROTO_BYTES) / sizeof(uint32_t);
    const uintptr_t lines = ag_luajit_word(proto, PROTO_LINES);
    const uint32_t first = ag_luajit_int(proto, PROTO_LINE);
    const uint32_t n_lines = ag_luajit_int(proto, PROTO_N_LINES);
    if (at < 1 || at > ag_luajit_int(proto, PROTO_N_CODE) || lines == 0) {
        return 0;
    }
    if (at == 1) {
        return first;
    }
    const uintptr_t index = at - 2;
    if (n_lines < BYTE_LINES) {
        return first + ag_luajit_byte(lines, index);
    }
    return first + (n_lines < SHORT_LINES
                        ? ag_luajit_int(lines, index * sizeof(uint16_t)) & (SHORT_LINES - 1)
                        : ag_luajit_int(lines, index * sizeof(uint32_t)));
}

/* ---- functions ---- */

static struct ag_luajit_known *place_of(struct ag_luajit_known *known, uint32_t capacity,
                                        uintptr_t proto) {
    uint32_t at = (uint32_t)((uint64_t)proto * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (capacity - 1);
    while (known[at].proto != 0 && known[at].proto != proto) {
        at = (at + 1) & (capacity - 1);
    }
    return &known[at];
}

/* Makes room for one more function. Functions that were freed are left out. */
static bool luajit_make_room(struct ag_luajit_frames *frames) {
    if (frames->known_capacity == 0) {
        frames->known = frames->first_known;
        frames->known_capacity = AG_LUAJIT_KNOWN_FIRST;
    }
    if (frames->n_known * 2 < frames->known_capacity) {
        return true;
    }
    const uint32_t capacity = frames->known_capacity * 2;
    struct ag_luajit_known *known = ag_pages_map(capacity * sizeof(*known));
    uint32_t n = 0;
    if (!known) {
        return false;
    }
    for (uint32_t i = 0; i < frames->known_capacity; i++) {
        if (frames->known[i].function != 0) {
            *place_of(known, capacity, frames->known[i].proto) = frames->known[i];
            n++;
        }
    }
    if (frames->known != frames->first_known) {
        ag_pages_unmap(frames->known, frames->known_capacity * sizeof(*known));
    }
    frames->known = known;
    frames->known_capacity = capacity;
    frames->n_known = n;
    return true;
}

/* The name is that by which the call reached the function, as in LuaJIT's own tracebacks. */
static uint32_t register_function(uintptr_t L, uintptr_t base, const struct ag_luajit_call *call) {
    struct luajit_debug debug = {.frame = (int)call->slot};
    uintptr_t *state_base = (uintptr_t *)(L + STATE_BASE); // NOLINT(performance-no-int-to-ptr)
    const uintptr_t old = *state_base;
    *state_base = base; /* compiled code does not use the field, and may have left it outdated */
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const bool is_known = ag_luajit.get_info((lua_State *)L, "nS", &debug) != 0;
    *state_base = old;
    if (!is_known) {
        return 0;
    }
    const bool is_chunk = strcmp(debug.what, "main") == 0;
    const bool is_file = debug.source && (debug.source[0] == '@' || debug.source[0] == '=');
    const struct allogram_function_options options = {
        .size = sizeof(options),
        .name = is_chunk     ? "main chunk"
                : debug.name ? debug.name
                             : "function",
        .file = is_file ? debug.source + 1 : debug.short_source,
        .runtime = "luajit",
        .line = debug.first_line > 0 ? (uint32_t)debug.first_line : 0};
    return allogram_register_function(&options);
}

static uint32_t function_of(struct ag_luajit_frames *frames, uintptr_t L, uintptr_t base,
                            const struct ag_luajit_call *call) {
    if (!luajit_make_room(frames)) {
        return 0;
    }
    struct ag_luajit_known *known = place_of(frames->known, frames->known_capacity, call->proto);
    if (AG_LIKELY(known->proto != 0 && known->function != 0)) {
        return known->function;
    }
    const uint32_t function = register_function(L, base, call);
    if (function != 0) {
        frames->n_known += known->proto == 0;
        *known = (struct ag_luajit_known){.proto = call->proto, .function = function};
    }
    return function;
}

void ag_luajit_frames_freed(struct ag_luajit_frames *frames, const void *block, size_t bytes) {
    if (bytes >= PROTO_BYTES && frames->known_capacity != 0) {
        place_of(frames->known, frames->known_capacity, (uintptr_t)block)->function = 0;
    }
}

/* ---- memos ---- */

static void memo_clear(struct ag_luajit_memo *memo) {
    memo->n_calls = memo->n_runs = 0;
    memo->is_partial = memo->has_unknown = false;
}

static size_t memo_bytes(const struct ag_luajit_memo *memo) {
    return memo->capacity *
           (2 * sizeof(*memo->calls) + sizeof(*memo->frames) + sizeof(*memo->runs));
}

static bool memo_map(struct ag_luajit_memo *memo, uint32_t capacity) {
    if (memo->calls) {
        ag_pages_unmap(memo->calls, memo_bytes(memo));
    }
    memo->capacity = capacity;
    memo->calls = ag_pages_map(memo_bytes(memo)); /* pages never used take no memory */
    if (!memo->calls) {
        memo->capacity = 0;
        return false;
    }
    memo->read = memo->calls + capacity;
    memo->frames = (struct ag_run_frame *)(memo->read + capacity);
    memo->runs = (struct ag_frame_run *)(memo->frames + capacity);
    return true;
}

static struct ag_luajit_memo *memo_of(struct ag_luajit_frames *frames, uintptr_t L) {
    const uint32_t recording = ag_stacks_recording();
    const uint32_t capacity = ag_recorder.depth * CALLS_PER_DEPTH;
    struct ag_luajit_memo *memo = NULL;
    for (uint32_t i = 0; i < AG_LUAJIT_MEMOS && !memo; i++) {
        memo = frames->memos[i].L == L ? &frames->memos[i] : NULL;
    }
    for (uint32_t i = 0; i < AG_LUAJIT_MEMOS && !memo; i++) {
        struct ag_luajit_memo *next = &frames->memos[frames->next_memo++ % AG_LUAJIT_MEMOS];
        memo = next->is_used ? NULL : next;
    }
    if (!memo || memo->is_used) {
        return NULL;
    }
    if (memo->L != L || memo->recording != recording || memo->capacity < capacity) {
        memo->L = 0;
        if ((memo->recording != recording || memo->capacity < capacity) &&
            !memo_map(memo, capacity)) { /* the new mapping also drops the sites and nodes */
            return NULL;
        }
        memo_clear(memo);
        memo->L = L;
        memo->recording = recording;
    }
    return memo;
}

/* Reads the calls of L into memo->read, at most MOST. If STOPS, the first call that has a mark is
 * the last that is read. Returns the number of calls. */
static uint32_t read_calls(struct ag_luajit_memo *memo, struct ag_luajit_reader *reader,
                           uint32_t most, bool stops) {
    uint32_t n = 0;
    while (n < most && ag_luajit_read(reader, &memo->read[n])) {
        const uint64_t function = *slot_at(reader->stack, memo->read[n].slot - 1);
        n++;
        if (stops && AG_LUAJIT_TAG(function) == AG_LUAJIT_MARKED_TAG) {
            break;
        }
    }
    return n;
}

static void finish_run(struct ag_luajit_memo *memo, uint32_t n_frames) {
    if (memo->n_runs > 0) {
        struct ag_frame_run *run = &memo->runs[memo->n_runs - 1];
        run->n = (uint32_t)(memo->frames + n_frames - run->frames);
        run->n_known = run->n_known < run->n ? run->n_known : run->n;
    }
}

/* A lua_State whose calls are read, and the native frames from which the lines of its calls are
 * found. */
struct luajit_view {
    struct ag_luajit_frames *frames;
    uintptr_t L, base;
    /* the native frames of the interpreter, the innermost first; 0: compiled code, whose pc is
     * unknown */
    const uintptr_t *c_frames;
    uint32_t n_c_frames;
};

static struct ag_run_frame place(const struct luajit_view *view,
                                 const struct ag_luajit_call *call) {
    uintptr_t pc = call->pc;
    if (pc == 0 && call->segment < view->n_c_frames && view->c_frames[call->segment] != 0) {
        pc = ag_luajit_word(view->c_frames[call->segment], C_FRAME_PC);
    }
    return (struct ag_run_frame){.function = function_of(view->frames, view->L, view->base, call),
                                 .line = pc != 0 ? ag_luajit_line(call->proto, pc) : 0};
}

/* Replaces the calls from index FIRST on by the N calls in memo->read. */
static void memo_replace(struct ag_luajit_memo *memo, const struct luajit_view *view,
                         uint32_t first, uint32_t n) {
    const uint32_t n_old_runs = memo->n_runs;
    const uintptr_t stack = ag_luajit_word(view->L, STATE_STACK);
    uint32_t n_runs = first < memo->n_calls ? memo->calls[first].n_runs : 1;
    memo->n_runs = first > 0 ? memo->calls[first - 1].n_runs : 0;
    for (uint32_t i = 0; i < n; i++) {
        struct ag_luajit_call *call = &memo->calls[first + i];
        *call = memo->read[n - 1 - i];
        n_runs += i > 0 ? memo->read[n - i].segment - call->segment : 0;
        if (n_runs > memo->capacity) {
            memo_clear(memo);
            return;
        }
        while (memo->n_runs < n_runs) { /* runs without calls are segments of C functions */
            finish_run(memo, first + i);
            struct ag_frame_run *run = &memo->runs[memo->n_runs++];
            if (memo->n_runs > n_old_runs || run->frames != memo->frames + first + i) {
                *run = (struct ag_frame_run){.frames = memo->frames + first + i};
            }
        }
        call->n_runs = n_runs;
        struct ag_frame_run *run = &memo->runs[n_runs - 1];
        const struct ag_run_frame found = place(view, call);
        ag_run_set(run, (uint32_t)(memo->frames + first + i - run->frames), found.function,
                   found.line);
        memo->has_unknown |= found.function == 0 || call->segment >= view->n_c_frames;
        uint64_t *function = slot_at(stack, call->slot - 1);
        *function = AG_LUAJIT_POINTER(*function) | (uint64_t)AG_LUAJIT_MARKED_TAG << 47;
    }
    memo->n_calls = first + n;
    finish_run(memo, memo->n_calls);
}

/* Returns the memo of the view's lua_State, brought up to date; NULL: there is no memory, or the
 * current walk uses all memos. */
static struct ag_luajit_memo *recall(const struct luajit_view *view) {
    const uint32_t depth = ag_recorder.depth;
    struct ag_luajit_memo *memo = memo_of(view->frames, view->L);
    if (!memo || current.n_used == AG_LUAJIT_MEMOS) {
        return NULL;
    }
    memo->is_used = true;
    current.used[current.n_used++] = memo;
    if (memo->has_unknown) {
        memo_clear(memo);
    }
    struct ag_luajit_reader reader;
    ag_luajit_read_begin(&reader, view->L, view->base);
    uint32_t n = read_calls(memo, &reader, memo->capacity, memo->n_calls > 0);
    uint32_t first = memo->n_calls;
    while (n > 0 && first > 0 && memo->calls[first - 1].slot != memo->read[n - 1].slot) {
        first--;
    }
    const bool has_mark =
        n > 0 && first > 0 &&
        AG_LUAJIT_TAG(*slot_at(reader.stack, memo->read[n - 1].slot - 1)) == AG_LUAJIT_MARKED_TAG;
    first -= has_mark; /* the marked call is read again */
    if (!has_mark || first + n > memo->capacity || (memo->is_partial && first + n < depth)) {
        memo_clear(memo);
        first = 0;
        ag_luajit_read_begin(&reader, view->L, view->base);
        n = read_calls(memo, &reader, depth * CALLS_READ_PER_DEPTH, false);
        memo->is_partial = n == depth * CALLS_READ_PER_DEPTH;
    }
    memo->n_inner = n > 0 ? memo->read[0].segment : 0;
    memo_replace(memo, view, first, n);
    return memo;
}

/* ---- native frames ---- */

enum pc_class { PC_UNKNOWN, PC_OTHER, PC_INTERPRETER, PC_SIGNAL };
static struct ag_pc_classes classes;

static uint32_t find_class(uintptr_t pc) {
    enum { RBP = 6 };
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    if (ag_unwind_space_find_row(ag_recorder.space, pc, RBP, &row, &entry, NULL) < 0) {
        return PC_OTHER;
    }
    return entry.function == ag_luajit.interpreter ? PC_INTERPRETER
           : entry.is_signal_frame                 ? PC_SIGNAL
                                                   : PC_OTHER;
}

/* The native frames of the interpreter that have a segment, the innermost first. */
struct c_frames {
    uint32_t n;
    uintptr_t frames[C_FRAMES_MOST]; /* as in struct luajit_view */
    uintptr_t states[C_FRAMES_MOST], positions[C_FRAMES_MOST];
};

static void add_frame(struct c_frames *found, uintptr_t frame, uintptr_t L, uintptr_t position) {
    found->frames[found->n] = frame;
    found->states[found->n] = L;
    found->positions[found->n++] = position;
}

/* Whether L, which was found in the first native frame of the interpreter, at FRAME, is a
 * lua_State. While LuaJIT leaves compiled code, the frame has another layout, and L may be any
 * value. So L is accepted only if it is the running lua_State, or no lua_State runs, and if its
 * newest native frame is FRAME. */
static bool is_innermost(const struct ag_luajit_frames *frames, uintptr_t L, uintptr_t frame) {
    const uintptr_t running =
        frames->global != 0 ? ag_luajit_word(frames->global, ag_luajit.global_running) : 0;
    return L != 0 && (running == L || running == 0 || ag_luajit_c_frame(running) == 0) &&
           ag_luajit_c_frame(L) == frame;
}

static void find_c_frames(const struct ag_luajit_frames *frames,
                          const struct ag_walked_frame *natives, uint32_t n_natives,
                          struct c_frames *ret_found) {
    uintptr_t L = 0, frame = 0;
    ret_found->n = 0;
    ag_pc_classes_clear_stale(&classes, NULL);
    if (frames->trace_frame != 0 &&
        natives[0].sp == frames->trace_frame + C_FRAME_RETURN + WORD_BYTES) {
        frame = frames->trace_frame;
        L = ag_luajit_word(frame, C_FRAME_STATE);
        add_frame(ret_found, 0, L, natives[0].sp);
    }
    for (uint32_t i = 0; i + 1 < n_natives && ret_found->n < C_FRAMES_MOST; i++) {
        const uint32_t class = ag_pc_classes_get(&classes, natives[i].pc, find_class);
        if (class == PC_SIGNAL) {
            break;
        }
        if (class != PC_INTERPRETER) {
            continue;
        }
        const uintptr_t at = natives[i].sp;
        const uintptr_t found = ag_luajit_word(at, C_FRAME_STATE);
        const uintptr_t previous =
            frame != 0 ? ag_luajit_word(frame, C_FRAME_PREVIOUS) & ~(uintptr_t)3 : 0;
        if (previous != 0 ? previous != at || found != L
            : frame != 0  ? found % WORD_BYTES != 0 || found == 0 || ag_luajit_c_frame(found) != at
                          : !is_innermost(frames, found, at)) {
            break;
        }
        L = found;
        frame = at;
        if ((int32_t)ag_luajit_int(at, C_FRAME_N_RESULTS) >= 0) {
            add_frame(ret_found, at, L, at);
        }
    }
}

/* ---- the walk ---- */

static uint32_t compiled_code(void) {
    static _Atomic uint32_t function;
    uint32_t known = atomic_load_explicit(&function, memory_order_relaxed);
    if (known == 0) {
        const struct allogram_function_options options = {
            .size = sizeof(options), .name = "[compiled code]", .runtime = "luajit"};
        known = allogram_register_function(&options);
        atomic_store_explicit(&function, known, memory_order_relaxed);
    }
    return known;
}

/* Reports the runs of one lua_State, for the view's native frames, which are those of FOUND from
 * index FROM on. N: the number of items reported before; returns the new number. If ret_runs is
 * NULL or there is no memo, reads all calls and reports them one by one. */
static uint32_t report_state(const struct luajit_view *view, const struct c_frames *found,
                             uint32_t from, struct ag_managed_frame *ret_frames,
                             struct ag_frame_run **ret_runs, uint32_t n, uint32_t most) {
    const struct ag_luajit_memo *memo = ret_runs ? recall(view) : NULL;
    if (!memo) {
        struct ag_luajit_reader reader;
        struct ag_luajit_call call;
        ag_luajit_read_begin(&reader, view->L, view->base);
        while (n < most && ag_luajit_read(&reader, &call) && call.segment < view->n_c_frames) {
            const struct ag_run_frame frame = place(view, &call);
            ret_frames[n++] =
                (struct ag_managed_frame){.function = frame.function,
                                          .line = frame.line,
                                          .position = found->positions[from + call.segment]};
        }
        return n;
    }
    for (uint32_t i = memo->n_inner; i < view->n_c_frames && n < most; i++) {
        const uint32_t inner = i - memo->n_inner;
        struct ag_frame_run *run =
            inner < memo->n_runs ? &memo->runs[memo->n_runs - 1 - inner] : NULL;
        if (run && run->n > 0) {
            ret_runs[n] = run;
            ret_frames[n++] = (struct ag_managed_frame){.position = found->positions[from + i]};
        }
    }
    return n;
}

static uint32_t report_all(const struct ag_walked_frame *natives, uint32_t n_natives,
                           struct ag_managed_frame *ret_frames, struct ag_frame_run **ret_runs,
                           uint32_t most) {
    struct c_frames found;
    uint32_t n = 0;
    find_c_frames(current.frames, natives, n_natives, &found);
    if (found.n > 0 && found.frames[0] == 0 && most > 0) {
        ret_frames[n++] =
            (struct ag_managed_frame){.function = compiled_code(), .position = found.positions[0]};
    }
    for (uint32_t from = 0, to; from < found.n; from = to) {
        const uintptr_t L = found.states[from];
        for (to = from + 1; to < found.n && found.states[to] == L; to++) {
        }
        struct ag_luajit_frames *frames = ag_luajit_frames_of(L);
        if (!frames || frames->moving == ag_luajit_word(L, STATE_STACK)) {
            break;
        }
        const struct luajit_view view = {
            .frames = frames,
            .L = L,
            .base = found.frames[from] != 0
                        ? ag_luajit_word(L, STATE_BASE)
                        : ag_luajit_word(frames->global, ag_luajit.global_running + WORD_BYTES),
            .c_frames = &found.frames[from],
            .n_c_frames = to - from};
        n = report_state(&view, &found, from, ret_frames, ret_runs, n, most);
    }
    return n;
}

static void release_memos(void) {
    while (current.n_used > 0) {
        current.used[--current.n_used]->is_used = false;
    }
}

/* In the debug mode of record/self_check.h: compares the remembered frames with frames that are
 * read without the memo. */
AG_COLD static void check_runs(const struct ag_walked_frame *natives, uint32_t n_natives,
                               const struct ag_managed_frame *frames,
                               struct ag_frame_run *const *runs, uint32_t n, uint32_t most) {
    struct ag_managed_frame *read = ag_pages_map(most * sizeof(*read));
    if (!read) {
        return;
    }
    const uint32_t n_read = report_all(natives, n_natives, read, NULL, most);
    uint32_t at = 0;
    bool is_same = true;
    for (uint32_t item = 0; item < n; item++) {
        for (uint32_t i = runs[item] ? runs[item]->n : 1; i > 0 && at < n_read; i--, at++) {
            is_same =
                is_same && read[at].position == frames[item].position &&
                read[at].function ==
                    (runs[item] ? runs[item]->frames[i - 1].function : frames[item].function) &&
                read[at].line == (runs[item] ? runs[item]->frames[i - 1].line : frames[item].line);
        }
    }
    ag_self_check_count(is_same && at == n_read);
    ag_pages_unmap(read, most * sizeof(*read));
}

static uint32_t luajit_walk(void *context, const struct ag_walked_frame *natives,
                            uint32_t n_natives, struct ag_managed_frame *ret_frames,
                            struct ag_frame_run **ret_runs, uint32_t most) {
    (void)context;
    if (!current.frames || (current.walked && current.walked != natives)) {
        return 0; /* no state has allocated in this thread, or a signal handler interrupted a walk
                   * of this thread */
    }
    current.walked = natives;
    atomic_signal_fence(memory_order_seq_cst);
    const uint32_t n = report_all(natives, n_natives, ret_frames, ret_runs, most);
    if (AG_UNLIKELY(ag_self_check_is_on())) {
        check_runs(natives, n_natives, ret_frames, ret_runs, n, most);
    }
    return n;
}

static void luajit_end_walk(void *context, const struct ag_walked_frame *natives) {
    (void)context;
    if (current.walked == natives) {
        release_memos();
        atomic_signal_fence(memory_order_seq_cst);
        current.walked = NULL;
    }
}

AG_COLD static void begin_thread(struct ag_luajit_frames *frames) {
    static const char key;
    const struct ag_frame_source source = {.walk = luajit_walk, .end_walk = luajit_end_walk};
    if (!current.frames) {
        (void)ag_frame_source_set(&key, &source); /* table full: the stacks are native only */
    }
    current.frames = frames;
}

void ag_luajit_frames_enter(struct ag_luajit_frames *frames) {
    if (AG_UNLIKELY(current.frames != frames) && !current.walked) {
        begin_thread(frames);
    }
}

void ag_luajit_frames_end(struct ag_luajit_frames *frames) {
    frames->global = frames->trace_frame = frames->moving = 0;
    for (uint32_t i = 0; i < AG_LUAJIT_MEMOS; i++) {
        frames->memos[i].L = 0;
    }
    if (frames->known_capacity > AG_LUAJIT_KNOWN_FIRST) {
        ag_pages_unmap(frames->known, frames->known_capacity * sizeof(*frames->known));
    }
    frames->known_capacity = frames->n_known = 0;
    memset(frames->first_known, 0, sizeof(frames->first_known));
}
