/* luajit_calibration.c: compares LuaJIT with the offsets in luajit_runtime.h before they are used.
 *
 * A script calls two C functions of the adapter at known places: in nested, recursive, variadic and
 * tail calls, after large distances between lines, and in a coroutine. One (probe) compares the
 * calls that are read from the Lua stack with those of lua_getstack and lua_getinfo: the place of
 * the definition, the line and the source. The state's allocator reads the line that allocates from
 * the interpreter's native frame; the other function (check_line) checks that this line is the one
 * before the line of its own call, which lua_getinfo returns.
 *
 * The interpreter is the function that called the C function, according to .eh_frame. The field
 * cur_L of the global_State is found by its value, which must be the main thread at first and then
 * the coroutine. The state has LuaJIT's own allocator, so no allocator of the program is called. */
#include <string.h>

#include "base/pages.h"
#include "luajit_frames.h"
#include "record/recorder.h"
#include "unwind/unwind_space.h"

enum { GLOBAL_WORDS = 128, WORD_BYTES = 8 };

static struct { /* the calibration that is running */
    bool differs;
    uint32_t n_probes, n_checks;
    luajit_alloc *allocate;
    void *ud;
    uint32_t line; /* the line that allocated last */
    bool may_be_running[GLOBAL_WORDS];
    struct ag_walker *walker;
    struct ag_walked_frame *frames;
} own;

static uintptr_t function_at(uintptr_t pc) {
    enum { RBP = 6 };
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    return ag_unwind_space_find_row(ag_recorder.space, pc, RBP, &row, &entry, NULL) == 0
               ? entry.function
               : 0;
}

/* Walks the stack at this frame of a C function. Returns the first native frame of the interpreter;
 * NULL: none. */
static const struct ag_walked_frame *find_interpreter(const uintptr_t *frame) {
    uint32_t n;
    enum ag_root root;
    (void)ag_walker_capture_frames(own.walker, ag_recorder.space, frame + 1, *frame, own.frames, &n,
                                   &root);
    for (uint32_t i = 0; i + 1 < n; i++) {
        const uintptr_t function = function_at(own.frames[i].pc);
        if (function != 0 && (function == ag_luajit.interpreter || ag_luajit.interpreter == 0)) {
            ag_luajit.interpreter = function;
            return &own.frames[i];
        }
    }
    return NULL;
}

static bool is_same_call(lua_State *L, struct luajit_debug *debug,
                         const struct ag_luajit_call *call) {
    const char *source =
        // NOLINTNEXTLINE(performance-no-int-to-ptr): in an object of LuaJIT
        (const char *)(ag_luajit_word(call->proto, PROTO_CHUNK_NAME) + STRING_TEXT);
    const uint32_t line = ag_luajit_line(call->proto, call->pc);
    return ag_luajit.get_info(L, "Sl", debug) && source == debug->source &&
           line == (uint32_t)debug->line && debug->frame % 65536 == (int)call->slot &&
           ag_luajit_int(call->proto, PROTO_LINE) == (uint32_t)debug->first_line;
}

static bool are_same_calls(lua_State *L) {
    const uintptr_t state = (uintptr_t)L;
    struct ag_luajit_reader reader;
    struct ag_luajit_call call;
    struct luajit_debug debug;
    ag_luajit_read_begin(&reader, state, ag_luajit_word(state, STATE_BASE));
    for (int level = 0; ag_luajit.get_stack(L, level, &debug); level++) {
        struct luajit_debug found = debug;
        if (!ag_luajit.get_info(L, "S", &found)) {
            return false;
        }
        if (strcmp(found.what, "C") != 0 &&
            (!ag_luajit_read(&reader, &call) || !is_same_call(L, &debug, &call))) {
            return false;
        }
    }
    return !ag_luajit_read(&reader, &call);
}

static int probe(lua_State *L) {
    const uintptr_t state = (uintptr_t)L, global = ag_luajit_word(state, STATE_GLOBAL);
    const struct ag_walked_frame *at = find_interpreter(__builtin_frame_address(0));
    own.n_probes++;
    if (!at || ag_luajit_word(global, 0) == 0 || ag_luajit_word(at->sp, C_FRAME_STATE) != state ||
        ag_luajit_c_frame(state) != at->sp || ag_luajit_word(at->sp, C_FRAME_RETURN) != at[1].pc ||
        !are_same_calls(L)) {
        own.differs = true;
        return 0;
    }
    for (size_t i = 0; i + 1 < GLOBAL_WORDS; i++) {
        own.may_be_running[i] = own.may_be_running[i] &&
                                ag_luajit_word(global, i * WORD_BYTES) == state &&
                                ag_luajit_word(global, (i + 1) * WORD_BYTES) == 0;
    }
    return 0;
}

/* Checks that the line before the line of this call made the last allocation. */
static int check_line(lua_State *L) {
    struct luajit_debug debug;
    own.n_checks++;
    own.differs |= !ag_luajit.get_stack(L, 1, &debug) || !ag_luajit.get_info(L, "l", &debug) ||
                   own.line + 1 != (uint32_t)debug.line;
    return 0;
}

static void *luajit_try(void *ud, void *block, size_t old_bytes, size_t new_bytes) {
    (void)ud;
    const struct ag_walked_frame *at =
        block || ag_luajit.interpreter == 0 ? NULL : find_interpreter(__builtin_frame_address(0));
    if (at) {
        const uintptr_t L = ag_luajit_word(at->sp, C_FRAME_STATE);
        struct ag_luajit_reader reader;
        struct ag_luajit_call call;
        ag_luajit_read_begin(&reader, L, ag_luajit_word(L, STATE_BASE));
        if (ag_luajit_read(&reader, &call)) {
            own.line = ag_luajit_line(call.proto,
                                      call.pc != 0 ? call.pc : ag_luajit_word(at->sp, C_FRAME_PC));
        }
    }
    return own.allocate(own.ud, block, old_bytes, new_bytes);
}

#define TEN "\n\n\n\n\n\n\n\n\n\n"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
static const char script[] = "local probe, check = ...\n"
                             "local function inner(...)\n"
                             "  probe()\n"
                             "  local a = { ... }\n"
                             "  check() probe() " HUNDRED HUNDRED HUNDRED "  probe()\n"
                             "  return #a\n"
                             "end\n"
                             "local function outer(n)\n"
                             "  if n == 0 then inner(1, 2, 3) return inner(4) end\n"
                             "  local s = { n }\n"
                             "  check()\n"
                             "  outer(n - 1)\n"
                             "  return s\n"
                             "end\n"
                             "probe(1, function() end)\n"
                             "outer(3)\n"
                             "for i = 1, 3 do\n"
                             "  local f = function() return { i } end\n"
                             "  check()\n"
                             "  local t = { i, { i } }\n"
                             "  check()\n"
                             "  probe()\n"
                             "end\n";

static void run(lua_State *L, bool resumes) {
    if (ag_luajit.load(L, script, sizeof(script) - 1, "@calibration") != 0) {
        own.differs = true;
        return;
    }
    ag_luajit.push_function(L, probe, 0);
    ag_luajit.push_function(L, check_line, 0);
    own.differs |= (resumes ? ag_luajit.resume(L, 2) : ag_luajit.pcall(L, 2, 0, 0)) != 0;
}

static void compare(lua_State *owner) {
    enum { PROBES = 2 * 10, CHECKS = 2 * 11 };
    own.allocate = ag_luajit.get_allocator(owner, &own.ud);
    lua_State *L = ag_luajit.new_state(luajit_try, NULL);
    if (!L) {
        own.differs = true;
        return;
    }
    run(L, /* resumes= */ false);
    run(ag_luajit.new_thread(L), /* resumes= */ true);
    for (uint32_t i = 0; i + 1 < GLOBAL_WORDS; i++) {
        ag_luajit.global_running =
            own.may_be_running[i] ? i * WORD_BYTES : ag_luajit.global_running;
    }
    own.differs |=
        ag_luajit.global_running == 0 || own.n_probes != PROBES || own.n_checks != CHECKS;
    ag_luajit.interpreter = own.differs ? 0 : ag_luajit.interpreter;
    ag_luajit.close(L);
}

bool ag_luajit_calibrate(void) {
    const uint32_t depth = ag_recorder.depth;
    const size_t walker_bytes = (ag_walker_bytes(depth) + 63) & ~(size_t)63;
    const size_t bytes = walker_bytes + depth * sizeof(*own.frames);
    char *memory = ag_pages_map(bytes);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the marker that requests LuaJIT's allocator
    lua_State *owner = ag_luajit.new_state((luajit_alloc *)(uintptr_t)AG_LUAJIT_INTERNAL, NULL);
    memset(&own, 0, sizeof(own));
    memset(own.may_be_running, true, sizeof(own.may_be_running));
    own.differs = !memory || !owner;
    if (!own.differs) {
        own.walker = ag_walker_init(memory, depth);
        own.frames = (struct ag_walked_frame *)(void *)(memory + walker_bytes);
        compare(owner);
    }
    if (owner) {
        ag_luajit.close(owner);
    }
    if (memory) {
        ag_pages_unmap(memory, bytes);
    }
    return !own.differs;
}
