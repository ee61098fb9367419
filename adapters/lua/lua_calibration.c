/* lua_calibration.c: compares the Lua of this process with the row of its release in
 * lua_releases.def (the offsets of fields in Lua's structs), before the adapter changes anything.
 *
 * 1. Fields. A script calls a C function of the adapter at known places. The script has nested,
 * recursive, variadic and tail calls, large distances between lines, and a coroutine. The C
 * function compares the calls that it reads from the fields with those of lua_getstack and
 * lua_getinfo: their number, their kind (Lua or C), the place of the definition, the line and the
 * source. The C function also compares the names of the script's functions, and Lua's count of
 * bytes in use with the bytes that the adapter's allocator gave out. A second script (not for 5.1)
 * proves that a mark in a call's status stays until the call returns, and that a new call begins
 * without it (lua_call_memo.c).
 *
 * 2. Functions without a name. A C function is called once directly and once by a script: the one
 * function that is on the stack of the second call and not on that of the first is luaV_execute. A
 * finalizer of the adapter is called by a full collection and by a step of the collector: the
 * function that lua_gc called is luaC_fullgc or luaC_step. A frame is identified by the address
 * where its function begins, according to .eh_frame.
 *
 * 3. The pc. This file finds where luaV_execute holds its pc (the address of the next bytecode
 * instruction) while Lua has not saved it (lua_pcs.c). A chunk (a compiled file or string) of table
 * constructors, followed by constructors of closures, runs from its first line to its last. Each
 * table constructor makes one table, so the n-th table is made by the n-th OP_NEWTABLE. A vector
 * (an array or hash part) is made by that OP_NEWTABLE if the instruction contains the table's size,
 * otherwise by the OP_SETLIST after it. In 5.1 an OP_CLOSURE makes a closure and its upvalue.
 *
 * 4. Types. Lua 5.1 passes no types to its allocator. So, before the steps above, another Lua state
 * makes an object of each type, and lua_requests.c learns the return addresses of these requests.
 *
 * The states' memory is an arena of the adapter, so no allocator of the program is called. */
#include "lua_calibration.h"

#include <errno.h>
#include <string.h>

#include "base/pages.h"
#include "lua_pcs.h"
#include "lua_requests.h"
#include "lua_runtime.h"
#include "record/recorder.h"
#include "unwind/unwind_space.h"

enum {
    ARENA_BYTES = 4 << 20,
    CLASSES = 65, /* size classes of 16 bytes: free blocks of up to 1024 bytes are used again */
    FRAMES_MOST = 64,
    STOP = 0,        /* LUA_GCSTOP */
    RESTART = 1,     /* LUA_GCRESTART */
    COLLECT = 2,     /* LUA_GCCOLLECT */
    STEP = 5,        /* LUA_GCSTEP */
    INCREMENTAL = 0, /* KGC_INC; in 5.3 KGC_NORMAL */
};

struct stack {
    uintptr_t functions[FRAMES_MOST]; /* where the functions begin, innermost first */
    int n;
};

static struct { /* the calibration that is running */
    char *arena;
    size_t used_bytes;
    int64_t in_use_bytes;
    void *free[CLASSES];
    struct stack direct, by_script, collected, stepped;
    struct stack *wanted; /* the stack that the next call of finalize() fills in */
    int n_compared, n_finalized, n_marked;
    const char *reason;            /* the first difference found */
    bool notes_requests;           /* requests are noted, so no address may be used twice */
    const lua_State *constructing; /* the state that runs the constructors; NULL: the constructors
                                    * are not running */
    int n_constructed;             /* index of the instruction after the OP_NEWTABLE (5.1: or
                                    * OP_CLOSURE) that was found last; 0: none yet */
    struct ag_walker *walker;
    struct ag_walked_frame *frames;
} own;

static void complain(const char *reason) {
    own.reason = own.reason ? own.reason : reason;
}

/* ---- the arena ---- */

static void *lua_calibration_take(size_t bytes) {
    const size_t class = (bytes + 15) / 16;
    if (class < CLASSES && own.free[class]) {
        void *block = own.free[class];
        own.free[class] = *(void **)block;
        return block;
    }
    if (bytes > ARENA_BYTES - own.used_bytes - 16) {
        return NULL;
    }
    void *block = own.arena + own.used_bytes;
    own.used_bytes += class * 16;
    return block;
}

static void give(void *block, size_t bytes) {
    const size_t class = (bytes + 15) / 16;
    if (class > 0 && class < CLASSES && !own.notes_requests) {
        *(void **)block = own.free[class];
        own.free[class] = block;
    }
}

static void learn(size_t tag, const uintptr_t *sp, uintptr_t rbp);

/* The state's allocator is ag_lua_try, in lua_entry.S, which calls ag_lua_try_from. */
ag_lua_alloc ag_lua_try;
void *ag_lua_try_from(void *ud, void *block, size_t old_bytes, size_t new_bytes,
                      const uintptr_t *sp, uintptr_t rbp);

void *ag_lua_try_from(void *ud, void *block, size_t old_bytes, size_t new_bytes,
                      const uintptr_t *sp, uintptr_t rbp) {
    void *made = NULL;
    (void)ud;
    if (own.constructing && !block && new_bytes != 0) {
        learn(ag_lua.layout.global_objects != 0 ? ag_lua_requests_tag(sp, rbp) : old_bytes, sp,
              rbp);
    }
    if (new_bytes != 0) {
        made = lua_calibration_take(new_bytes);
        if (!made) {
            return NULL;
        }
    }
    if (block) {
        if (made) {
            memcpy(made, block, old_bytes < new_bytes ? old_bytes : new_bytes);
        }
        give(block, old_bytes);
        own.in_use_bytes -= (int64_t)old_bytes;
    }
    own.in_use_bytes += (int64_t)new_bytes;
    if (own.notes_requests && !block && made) {
        ag_lua_requests_note(made, sp, rbp);
    }
    return made;
}

/* ---- native frames ---- */

AG_NOINLINE static void keep_stack(struct stack *ret_stack) {
    uint64_t pcs[FRAMES_MOST];
    enum ag_root root;
    const uintptr_t *frame = __builtin_frame_address(0);
    const uint32_t node = ag_walk_plain(ag_recorder.space, frame + 1, *frame);
    ret_stack->n = ag_stack_tree_frames(&ag_recorder.space->tree, node, FRAMES_MOST, pcs, &root);
    if (ret_stack->n < 0 || ret_stack->n > FRAMES_MOST) {
        ret_stack->n = 0;
    }
    for (int i = 0; i < ret_stack->n; i++) {
        ret_stack->functions[i] = ag_lua_function_at((uintptr_t)pcs[i]);
    }
}

static bool has(const struct stack *stack, uintptr_t function) {
    for (int i = 0; i < stack->n; i++) {
        if (stack->functions[i] == function) {
            return true;
        }
    }
    return false;
}

/* The only function that stack ONE has between its innermost function and the function API, and
 * that stack OTHER does not have. 0: there is no such function, or more than one. */
static uintptr_t only_on(const struct stack *one, const struct stack *other, uintptr_t api) {
    uintptr_t found = 0;
    for (int i = 1; i < one->n && one->functions[i] != api; i++) {
        if (!has(other, one->functions[i]) && one->functions[i] != found) {
            if (found != 0) {
                return 0;
            }
            found = one->functions[i];
        }
    }
    return found;
}

/* The function that the function API called; 0: API is not on the stack. */
static uintptr_t called_by(const struct stack *stack, uintptr_t api) {
    for (int i = 1; i < stack->n; i++) {
        if (stack->functions[i] == api) {
            return stack->functions[i - 1];
        }
    }
    return 0;
}

/* ---- fields ---- */

static bool is_same_call(const lua_State *L, const void *ci, const struct ag_lua_debug *debug) {
    const bool is_c = ag_lua_call_is_c(L, ci);
    if (is_c || strcmp(debug->what, "C") == 0) {
        return is_c && strcmp(debug->what, "C") == 0;
    }
    const void *proto = ag_lua_proto_of(L, ci);
    if (!proto) {
        return false;
    }
    const char *source = ag_lua_text_of(ag_lua_pointer(proto, ag_lua.layout.proto_source));
    return ag_lua_int(proto, ag_lua.layout.proto_line) ==
               ag_lua_int(debug, ag_lua.layout.debug_line_defined) &&
           source == debug->source &&
           ag_lua_line_of(proto, ag_lua_saved_pc(L, ci)) ==
               (uint32_t)ag_lua_int(debug, ag_lua.layout.debug_line);
}

static void compare_calls(lua_State *L) {
    const void *ci = ag_lua_pointer(L, ag_lua.layout.state_ci);
    struct ag_lua_debug debug;
    int level = 0;
    for (; ag_lua.api.lua_getstack(L, level, &debug); level++) {
        const void *call = ag_lua_debug_call(&debug, L);
        if (!call && ag_lua.layout.ci_bytes != 0) {
            continue; /* 5.1 counts a call that a tail call replaced as a level */
        }
        if (!ci || call != ci || !ag_lua.api.lua_getinfo(L, "Sl", &debug) ||
            !is_same_call(L, ci, &debug)) {
            complain("its CallInfo structures have other offsets than in this release");
            return;
        }
        ci = ag_lua_caller(L, ci);
    }
    if (!ci || ag_lua_caller(L, ci)) {
        complain("the list of its CallInfo structures does not end as in this release");
    }
    own.n_compared++;
}

/* Compares the names of the functions that the chunk defines. The chunk is the outermost call. */
static void compare_names(const lua_State *L) {
    static const char *const names[] = {"inner", "outer", "shared", "method"};
    const void *chunk = NULL;
    for (const void *ci = ag_lua_pointer(L, ag_lua.layout.state_ci); ci;
         ci = ag_lua_caller(L, ci)) {
        if (!ag_lua_call_is_c(L, ci)) {
            chunk = ag_lua_proto_of(L, ci);
        }
    }
    bool is_same = chunk && ag_lua_int(chunk, ag_lua.layout.proto_n_children) == 5;
    for (uint32_t i = 0; i < AG_ARRAY_SIZE(names) && is_same; i++) {
        const char *name = ag_lua_name_in(chunk, i);
        is_same = name && strcmp(name, names[i]) == 0;
    }
    if (!is_same || ag_lua_name_in(chunk, 4)) {
        complain("the names of its functions have other offsets than in this release");
    }
}

static void compare_state(const lua_State *L) {
    const void *global = ag_lua_pointer(L, ag_lua.layout.state_global);
    const uint16_t at = ag_lua.layout.global_allocator;
    if (ag_lua_pointer(global, at) != (void *)(uintptr_t)ag_lua_try ||
        ag_lua_pointer(global, at + sizeof(void *)) != (void *)&own) {
        complain("its global state has another offset than in this release");
    } else if (ag_lua_total_bytes(global) != own.in_use_bytes) {
        complain("its count of bytes has another offset than in this release");
    }
}

static int probe(lua_State *L) {
    compare_state(L);
    compare_calls(L);
    if (!own.reason) {
        compare_names(L);
    }
    if (own.by_script.n == 0) { /* only the first call: later ones may run in the coroutine */
        keep_stack(&own.by_script);
    }
    return 0;
}

static int probe_directly(lua_State *L) {
    (void)L;
    keep_stack(&own.direct);
    return 0;
}

/* Called twice by each call of the function `marked` of mark_script. That call has no mark at the
 * first time, and has the mark at the second time. */
static int probe_mark(lua_State *L) {
    void *ci = ag_lua_caller(L, ag_lua_pointer(L, ag_lua.layout.state_ci));
    const bool is_marked = ag_lua_call_status(ci) & ag_lua.layout.call_mark;
    if (is_marked != (own.n_marked++ % 2 == 1)) {
        complain("the bits of a call's status are not those of this release");
    }
    ag_lua_call_mark(ci);
    return 0;
}

static int finalize(lua_State *L) {
    const char *global = ag_lua_pointer(L, ag_lua.layout.state_global);
    keep_stack(own.wanted);
    own.n_finalized++;
    /* in 5.3, a step calls remaining finalizers also while the collector is in another state */
    if (own.wanted == &own.collected &&
        ag_lua_byte(global, ag_lua.layout.global_gc_state) != ag_lua.layout.gc_finalizes) {
        complain("its collector's state has another offset than in this release");
    }
    return 0;
}

/* ---- the script ---- */

#define TEN "\n\n\n\n\n\n\n\n\n\n"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
static const char script[] = "local probe = ...\n"
                             "local function inner(...)\n"
                             "  probe()\n"
                             "  local a = { ... }\n"
                             "  probe() " HUNDRED HUNDRED "  probe()\n"
                             "  return #a\n"
                             "end\n"
                             "local function outer(n)\n"
                             "  if n == 0 then inner(1, 2, 3) return inner(4) end\n"
                             "  local s = 'x' .. n\n"
                             "  outer(n - 1)\n"
                             "  return s\n"
                             "end\n"
                             "function shared() end\n"
                             "local object = { 1, 2 }\n"
                             "function object:method() end\n"
                             "probe(1, function() end)\n"
                             "outer(3)\n"
                             "for i = 1, 3 do local t = { i, i .. 'y' } probe() end\n"
                             "probe()\n";

static const char mark_script[] = "local probe = ...\n"
                                  "local function marked() probe() probe() end\n"
                                  "marked()\n"
                                  "marked()\n";

static const char *read_text(lua_State *L, void *data, size_t *ret_bytes) {
    const char **text = data;
    const char *read = *text;
    (void)L;
    *text = NULL;
    *ret_bytes = read ? strlen(read) : 0;
    return read;
}

static bool lua_calibration_load(lua_State *L, const char *text, ag_lua_function *argument) {
    if (ag_lua.api.lua_load(L, read_text, &text, "@calibration", "t") != 0) {
        complain("it cannot load a test script");
        return false;
    }
    ag_lua.api.lua_pushcclosure(L, argument, 0);
    return true;
}

static void call_protected(lua_State *L, int n_arguments) {
    if (ag_lua.api.lua_pcallk(L, n_arguments, 0, 0, 0, NULL) != 0) {
        complain("a test script fails");
    }
}

/* Resumes a coroutine, with one argument. */
static int resume(lua_State *coroutine, lua_State *from) {
    int n_results;
    if (ag_lua.layout.ci_bytes != 0) { /* 5.1: lua_resume(L, n_arguments) */
        int (*resume_5_1)(lua_State *, int) =
            (int (*)(lua_State *, int))(uintptr_t)ag_lua.api.lua_resume;
        return resume_5_1(coroutine, 1);
    }
    return ag_lua.api.lua_resume(coroutine, from, 1, &n_results);
}

static void run_script(lua_State *L) {
    ag_lua.api.lua_pushcclosure(L, probe_directly, 0);
    call_protected(L, 0);
    if (!lua_calibration_load(L, script, probe)) {
        return;
    }
    call_protected(L, 1);
    if (ag_lua.layout.ci_bytes == 0 && lua_calibration_load(L, mark_script, probe_mark)) {
        call_protected(L, 1);
        if (own.n_marked != 4) {
            complain("a test script does not make all of its calls");
        }
    }
    lua_State *coroutine = ag_lua.api.lua_newthread(L);
    const int n_before = own.n_compared;
    if (lua_calibration_load(coroutine, script, probe) && resume(coroutine, L) != 0) {
        complain("a test coroutine fails");
    }
    if (own.n_compared == n_before || n_before == 0) {
        complain("a test script does not call the adapter's function");
    }
    ag_lua.api.lua_settop(L, 0);
}

/* Makes an object that is garbage at once and has a finalizer. */
static void make_garbage(lua_State *L) {
    if (ag_lua.layout.refuses_table_finalizers) {
        (void)ag_lua.new_userdata(L, 8);
    } else {
        ag_lua.api.lua_createtable(L, 0, 0);
    }
    ag_lua.api.lua_createtable(L, 0, 1);
    ag_lua.api.lua_pushcclosure(L, finalize, 0);
    ag_lua.api.lua_setfield(L, -2, "__gc");
    (void)ag_lua.api.lua_setmetatable(L, -2);
    ag_lua.api.lua_settop(L, 0);
}

static void collect(lua_State *L) {
    enum { STEPS_MOST = 1000 };
    const char *global = ag_lua_pointer(L, ag_lua.layout.state_global);
    (void)ag_lua.api.lua_gc(L, STOP);
    const bool is_stopped = ag_lua_gc_is_stopped(global);
    (void)ag_lua.api.lua_gc(L, RESTART);
    const uint16_t kind = ag_lua.layout.global_gc_kind;
    if ((!is_stopped && ag_lua.layout.global_gc_stopped != 0) || ag_lua_gc_is_stopped(global) ||
        (kind != 0 && ag_lua_byte(global, kind) != INCREMENTAL)) {
        complain("its collector's mode has another offset than in this release");
        return;
    }
    own.wanted = &own.collected;
    make_garbage(L);
    (void)ag_lua.api.lua_gc(L, COLLECT);
    if (own.n_finalized != 1 || !ag_lua_gc_pauses(global)) {
        complain("a full collection calls no finalizer");
        return;
    }
    own.wanted = &own.stepped;
    make_garbage(L);
    for (int i = 0; i < STEPS_MOST && own.n_finalized == 1; i++) {
        (void)ag_lua.api.lua_gc(L, STEP, 0);
    }
    if (own.n_finalized != 2) {
        complain("steps of the collector call no finalizer");
    }
}

static void find_functions(void) {
    const uintptr_t gc = (uintptr_t)ag_lua.api.lua_gc;
    ag_lua.execute = only_on(&own.by_script, &own.direct, (uintptr_t)ag_lua.api.lua_pcallk);
    ag_lua.full = called_by(&own.collected, gc);
    ag_lua.step = called_by(&own.stepped, gc);
    if (ag_lua.execute == 0) {
        complain("its interpreter's function cannot be distinguished from other functions");
    } else if (ag_lua.full == 0 || ag_lua.step == 0 || ag_lua.full == ag_lua.step) {
        complain("its collector's functions cannot be distinguished from other functions");
    }
}

/* ---- types ---- */

static const char objects[] = "local function make(a) return function() return a end end\n"
                              "return make({}), make('an' .. 'object')\n";

static void find_types(void) {
    own.notes_requests = true;
    lua_State *L = ag_lua.api.lua_newstate(ag_lua_try, &own);
    if (!L) {
        complain("it cannot create a test state");
    } else {
        (void)ag_lua.api.lua_gc(L, STOP);
        (void)ag_lua.new_userdata(L, 8);
        (void)ag_lua.api.lua_newthread(L);
        if (lua_calibration_load(L, objects, probe_directly)) {
            call_protected(L, 1);
        }
        if (!ag_lua_requests_learn(L)) {
            complain("the types of its blocks cannot be distinguished");
        }
        ag_lua.api.lua_close(L);
    }
    own.notes_requests = false;
    own.used_bytes = 0;
    own.in_use_bytes = 0;
}

/* ---- constructors ---- */

#define ITEMS "1,1,1,1,1,1,1,1,1,1,"
#define ITEMS_100 ITEMS ITEMS ITEMS ITEMS ITEMS ITEMS ITEMS ITEMS ITEMS ITEMS
#define CLOSURES \
    "do local u = 1 t = function() return u end end\n" /* makes a closure and its upvalue */
static const char constructors[] = "local t = {}\n"
                                   "t = { 1, 2, 3 }\n"
                                   "t = { x = 1 }\n"
                                   "t = { ... }\n"
                                   "t = { {}, { 1, y = 2 }, { ... } }\n"
                                   "local s = { " ITEMS_100 ITEMS_100 ITEMS_100 "}\n"
                                   "s = { x = { y = {} } }\n"
                                   "s = { ... }\n"
                                   "s = {}\n" CLOSURES CLOSURES CLOSURES;

/* Finds the instruction of the constructors that allocates a block with this tag (enum ag_lua_tag,
 * 0: a vector). NULL: none allocates such a block. */
static const uint32_t *find_instruction(const void *proto, size_t tag) {
    const uint32_t *code = ag_lua_pointer(proto, ag_lua.layout.proto_code);
    const int n = ag_lua_int(proto, ag_lua.layout.proto_n_code);
    const bool is_vector = tag == 0 && own.n_constructed > 0;
    int at = own.n_constructed;
    uint32_t wanted = ag_lua.layout.op_new_table;
    if (ag_lua.layout.closure_has_words && tag == AG_LUA_TAG_FUNCTION) {
        wanted = ag_lua.layout.op_closure;
    } else if (ag_lua.layout.closure_has_words && tag == ag_lua.layout.tag_upvalue) {
        return &code[at - 1]; /* the OP_CLOSURE; the pc is at the word of the first upvalue */
    } else if (is_vector) {
        if (ag_lua_bx_of(code[at - 1]) != 0) { /* the table is made with room for its elements */
            return &code[at - 1];
        }
        wanted = ag_lua.layout.op_set_list;
    } else if (tag != AG_LUA_TAG_TABLE) {
        return NULL;
    }
    while (at < n && ag_lua_op_of(code[at]) != wanted) {
        at++;
    }
    if (!is_vector) {
        own.n_constructed = at < n ? at + 1 : 0;
    }
    return at < n ? &code[at] : NULL;
}

/* Called for each new block that Lua requests while the constructors run. */
static void learn(size_t tag, const uintptr_t *sp, uintptr_t rbp) {
    const lua_State *L = own.constructing;
    const void *ci = ag_lua_pointer(L, ag_lua.layout.state_ci);
    const void *proto = ag_lua_call_is_c(L, ci) ? NULL : ag_lua_proto_of(L, ci);
    const uint32_t *instruction = proto ? find_instruction(proto, tag) : NULL;
    uint32_t n_frames = 0;
    enum ag_root root;
    if (instruction) {
        (void)ag_walker_capture_frames(own.walker, ag_recorder.space, sp, rbp, own.frames,
                                       &n_frames, &root);
    }
    for (uint32_t i = 0; i + 1 < n_frames; i++) {
        if (ag_lua_function_at(own.frames[i].pc) == ag_lua.execute) {
            ag_lua_pcs_learn(own.frames, i, instruction);
            return;
        }
    }
}

static void construct(lua_State *L, lua_State *coroutine) {
    lua_State *runs = coroutine ? coroutine : L;
    if (!lua_calibration_load(runs, constructors, probe)) { /* also pushes an argument, for `...` */
        return;
    }
    own.n_constructed = 0;
    own.constructing = runs;
    if (!coroutine) {
        call_protected(L, 1);
    } else if (resume(coroutine, L) != 0) {
        complain("a test coroutine fails");
    }
    own.constructing = NULL;
}

/* Finds where luaV_execute holds its pc. If the place is not found, Lua is recorded nevertheless,
 * and frames get the line of the pc that Lua saved last. */
static void run_constructors(lua_State *L) {
    if (!ag_lua.layout.keeps_pc_in_variable) {
        ag_lua.has_pcs = true; /* Lua has saved every pc */
        return;
    }
    const uint32_t depth = ag_recorder.depth;
    const size_t walker_bytes = (ag_walker_bytes(depth) + 63) & ~(size_t)63;
    const size_t bytes = walker_bytes + depth * sizeof(*own.frames);
    char *memory = ag_pages_map(bytes);
    if (!memory) {
        return;
    }
    own.walker = ag_walker_init(memory, depth);
    own.frames = (struct ag_walked_frame *)(void *)(memory + walker_bytes);
    (void)ag_lua.api.lua_gc(L, STOP);
    construct(L, NULL);
    construct(L, ag_lua.api.lua_newthread(L));
    ag_pages_unmap(memory, bytes);
    ag_lua.has_pcs = ag_lua_pcs_settle();
}

int ag_lua_calibrate(const char **ret_reason) {
    memset(&own, 0, sizeof(own));
    own.arena = ag_pages_map(ARENA_BYTES);
    if (!own.arena) {
        *ret_reason = "out of memory for a test state";
        return -ENOMEM;
    }
    if (ag_lua.layout.global_objects != 0) {
        find_types();
    }
    lua_State *L = ag_lua.api.lua_newstate(ag_lua_try, &own);
    if (L) {
        run_script(L);
        collect(L);
        if (!own.reason) {
            find_functions();
        }
        if (!own.reason) {
            run_constructors(L);
        }
        ag_lua.api.lua_close(L);
    } else {
        complain("it cannot create a test state");
    }
    ag_pages_unmap(own.arena, ARENA_BYTES);
    *ret_reason = own.reason;
    return own.reason ? -ENOTSUP : 0;
}
