/* tracer.c: the native half of the tracer of Erlang nodes: counts functions and their words
 * exactly.
 *
 * 1. Events. The emulator calls a tracer module's functions at the events of the traced processes:
 * a call, a return to a function, the beginning and end of a collection, a process that is
 * scheduled in or out, a message, and the start and end of a process. The functions of this tracer
 * are native functions, which run in the thread and in the context of the process. So they can read
 * the process' heap as it is at the event (process_layout.h). The words allocated since the last
 * event are those of the current function (heap_growth.h).
 *
 * 2. The current function. The emulator does not say which function calls another. The tracer finds
 * the caller by the depth, the number of words on the process' stack: a call at a larger depth is
 * inside of all calls at smaller depths. So a stack of levels is kept for each process. A call
 * removes the levels that are as deep or deeper, then adds its own. A return to a function removes
 * the levels of the functions that ended. After an exception, the next event removes the levels of
 * functions that the exception ended.
 *
 *     f               40 words    call f at 40: no caller
 *       g             45          call g at 45: a body call, one level below f
 *       h             45 + R      call h: g ends with a tail call of h. The additional R words are
 *                                 the frame that the trace flag return_to has put there for g; h
 *                                 gets g's depth, and is counted as called by g
 *     return to f     40 + ..     g and h are left
 *
 * If a function is called again in such a chain of tail calls, its earlier level is used again. So
 * a loop of tail calls has one level for each of its functions.
 *
 * If only some functions are traced, or a function was called before it was traced, the function
 * with the next smaller depth is not the caller. In these cases the caller is read from the
 * process' stack (callers.h). It gets a level of the same depth as the function that it called: no
 * event says when the caller began, and its words are not counted.
 *
 * 3. Words that no function allocated. The emulator makes a tuple on the process' heap for each
 * event: the words of the tuple are counted as the profiler's own. Messages are counted when they
 * are received, and arguments of spawn when a process begins, each by the size that the emulator
 * itself copies. Words that appear on the heap while the process is scheduled out come from senders
 * of messages. Copies by collections are no growth.
 *
 * 4. Concurrency. Events of one process come one after the other, whichever thread runs it. Each
 * process has an entry of its own (traced_processes.h). Locks are taken only to find the entry when
 * a thread runs another process than at its last event, to add or remove an entry, at the first
 * call of a function, and for some searches of a caller (callers.c). No event allocates memory from
 * the emulator. */
#include <dlfcn.h>
#include <erl_nif.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "allogram/allogram.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/own_memory.h"
#include "callers.h"
#include "event_clock.h"
#include "function_handles.h"
#include "heap_growth.h"
#include "process_layout.h"
#include "record/recorder.h"
#include "selection.h"
#include "term_size.h"
#include "traced_processes.h"

enum { WORD = sizeof(ERL_NIF_TERM), RETURN_WORDS_MOST = 4 };

static struct {
    ERL_NIF_TERM error, exit_message, call, in, out, trace, discard, ok, known, found, joined, yes,
        no, undefined;
    ERL_NIF_TERM gc_minor_start, gc_minor_end, gc_major_start, gc_major_end;
    ERL_NIF_TERM heap_size, old_heap_size, mbuf_size, wordsize;
    ERL_NIF_TERM collections, some_collections, some_functions;
    ERL_NIF_TERM check_leaf, check_body;
    ERL_NIF_TERM proc_lib, init_p, gen, init_it, init, gen_event;
    ERL_NIF_TERM spawn, spawned, exit, registered, extra, erlang, apply, erts_internal,
        erts_beamasm, spawn_init, messages, spawn_arguments, profiler;
} atoms;

static bool are_sizes_known;     /* the sizes of messages and arguments, see term_size.h */
static uint32_t clock_error_ppm; /* the limit of the error of the clock's rate */
static uint32_t return_words;    /* size of the frame that return_to puts on the stack; 0: unknown
                               * yet */

/* The process whose events are used to measure the cost of an event (check/0 in allogram.erl). */
static struct {
    ERL_NIF_TERM pid; /* 0: none */
    uint64_t n_calls, first_depth, second_depth, last_clock;
    uint8_t last_kind;
    bool is_same;              /* all these calls but the first have the same depth */
    uint64_t n_right, n_wrong; /* callers of check_leaf/1 that were found correctly, or not */
} learning;

/* The process whose counters are kept when it ends, until the counters of all processes are dropped
 * (run in allogram.erl). It is written before the process is traced. */
static ERL_NIF_TERM kept_pid; /* 0: none */

/* Whether the library may be unmapped when the module is unloaded, because no thread is in an
 * event, and no thread can begin an event. */
static bool may_unmap;
/* A reference that keeps the library mapped. It is taken when the module is unloaded while
 * may_unmap is false. NULL: none. */
static void *kept_library;

/* ---- parts of an event ---- */

struct event {      /* not zeroed, since that takes as long as reading the clock */
    uint64_t begin; /* in ticks of the clock (event_clock.h) */
    struct ag_traced_process *process;
    struct ag_process_heap as_read, program; /* the heap with the event's tuple, and without it */
    uint64_t own_words;                      /* words of that tuple */
};

/* What was noted when the emulator last asked whether an event of a process is wanted (see
 * event_clock.c). Before a call it asks twice: `pid` and `clock` are those of the first question,
 * the state of the heap is that of the second. */
static _Thread_local struct {
    ERL_NIF_TERM pid; /* 0: the event of the question has begun */
    uint64_t clock;
    /* only for a call: the heap, before the emulator makes terms for the event */
    const uint64_t *top; /* NULL: unknown */
    uint64_t fragment_words;
} question;

/* The clock at the beginning of an event of the process, for all kinds of events but returns,
 * before which the emulator does not ask. */
AG_FAST uint64_t begin_of(ERL_NIF_TERM pid) {
    const bool is_asked = question.pid == pid;
    question.pid = 0;
    return AG_LIKELY(is_asked) ? question.clock : ag_event_clock_now();
}

static bool read_event(ErlNifEnv *env, ERL_NIF_TERM pid, ERL_NIF_TERM term,
                       struct event *ret_event) {
    if (!ag_process_is_here(env, pid)) {
        return false;
    }
    ag_process_read(env, &ret_event->as_read);
    ret_event->program = ret_event->as_read;
    ret_event->own_words = ag_heap_take_off_tuple(&ret_event->program, term);
    ret_event->process->structure = ag_env_word(env, AG_ENV_PROCESS);
    return true;
}

/* Before OTP 27, if an argument of a traced call is a match context (the state of matching a
 * binary), the emulator makes a binary of the rest that is not matched yet, between its question
 * and the event. The binary cannot be distinguished from a binary of the program, but the heap's
 * top at the question is known. */
static void take_off_binary(struct event *event) {
    enum { BINARY_WORDS = 5 };
    const uint64_t words = (uint64_t)(event->program.top - question.top) +
                           event->program.fragment_words - question.fragment_words;
    if (words == BINARY_WORDS) {
        event->program.top = question.top;
        event->program.fragment_words = question.fragment_words;
        event->own_words += BINARY_WORDS;
    }
}

/* ---- Erlang frames of recorded stacks ---- */

/* The process that this thread runs, if it is counted: from an event of the process until it is
 * scheduled out or ends. */
static _Thread_local struct {
    const struct ag_traced_process *process; /* NULL: none */
    uint32_t era;                            /* n_eras at the event */
    bool has_walk;
} running;

/* Number of times that tracing has ended. After that, no event says which process a thread runs, so
 * what the threads noted before is invalid. */
static _Atomic uint32_t n_eras;

static void add_frame(struct allogram_frame *frames, size_t most, size_t *n,
                      allogram_function function) {
    const void *outside = (const void *)(UINTPTR_MAX - sizeof(void *));
    if (function != 0 && *n < most && (*n == 0 || frames[*n - 1].function != function)) {
        frames[(*n)++] = (struct allogram_frame){.function = function, .position = outside};
    }
}

/* Called when the recorder records a stack of this thread, because it allocated a binary, called
 * the emulator's malloc or made a mapping. The Erlang functions are those of the process' levels.
 * The levels belong to this thread while it runs the process. All Erlang frames are outside of all
 * native ones: native frames are those of the emulator's functions that the innermost Erlang
 * function called, since the walk of native frames ends at generated code. So a stack with all
 * levels is complete. All levels of a recursion are one frame; otherwise each depth of the
 * recursion would be another stack. */
static size_t walk_levels(void *context, struct allogram_frame *frames, size_t most) {
    /* callers further out are left out, because each level takes a nanosecond */
    enum { LEVELS_MOST = 4096 };
    const struct ag_traced_process *process = running.process;
    size_t n = 0;
    (void)context;
    /* relaxed: the memory of an entry is not freed while the tracer is loaded, so a number that is
     * seen late only gives a stack outdated frames */
    if (process == NULL || process->n_levels == 0 ||
        running.era != atomic_load_explicit(&n_eras, memory_order_relaxed)) {
        return 0;
    }
    const uint32_t last = process->n_levels > LEVELS_MOST ? process->n_levels - LEVELS_MOST : 0;
    for (uint32_t level = process->n_levels; level > last; level--) {
        add_frame(frames, most, &n, process->levels[level - 1].function);
    }
    for (uint32_t i = 0; last == 0 && i < process->n_outer; i++) {
        if (process->outer[i].stack_words <= process->levels[0].stack_words) {
            add_frame(frames, most, &n, process->outer[i].function);
        }
    }
    if (process->is_whole && last == 0 && n > 0 && n < most) {
        frames[n - 1].position = ALLOGRAM_OUTERMOST;
    }
    return n;
}

AG_FAST void note_running(const struct ag_traced_process *process) {
    if (AG_UNLIKELY(!running.has_walk)) {
        running.has_walk = true;
        (void)allogram_walk_set(walk_levels, NULL); /* without it, stacks have no Erlang frames */
    }
    running.process = process;
    running.era = atomic_load_explicit(&n_eras, memory_order_relaxed);
}

static void end_era(void) {
    atomic_fetch_add_explicit(&n_eras, 1, memory_order_relaxed);
}

/* Called when the process has spawned another one since the last event: if it used spawn_request,
 * the emulator has made the reply {spawn_reply, Reference, ok, Pid} on the heap. It is a message,
 * which is counted when it is received. */
AG_COLD static void skip_spawn_reply(struct ag_traced_process *process,
                                     const struct ag_process_heap *heap) {
    const ERL_NIF_TERM reply =
        ag_heap_growth_find_tuple(&process->growth, heap, atoms.ok, process->spawned);
    if (reply != 0) {
        ag_heap_growth_skip_term(&process->growth, reply, ag_term_size(reply));
    }
    process->spawned = 0;
}

/* The words that the process allocated since the last event. If a function gives back words that
 * were counted when the process was scheduled out (at most returnable_words), the result is
 * negative: a number modulo 2^64, as the counters' sums are. */
static uint64_t words_of(const struct event *event) {
    struct ag_traced_process *process = event->process;
    if (!process->growth.has_begun) {
        return 0;
    }
    if (AG_UNLIKELY(process->spawned != 0)) {
        skip_spawn_reply(process, &event->program);
    }
    const int64_t words = ag_heap_growth_words(&process->growth, &event->program);
    const int64_t most = (int64_t)process->returnable_words;
    return (uint64_t)(words < -most ? -most : words);
}

static uint64_t ns_of(const struct event *event, enum ag_event_kind kind) {
    const struct ag_traced_process *process = event->process;
    return process->is_running
               ? ag_event_clock_ns(process->last_clock, event->begin, process->last_kind, kind)
               : 0;
}

static void end_event(const struct event *event, enum ag_event_kind kind, bool is_running) {
    struct ag_traced_process *process = event->process;
    if (AG_UNLIKELY(process->is_unnamed)) {
        process->early_tuples += event->own_words > 0;
    } else if (event->own_words > 0) {
        allogram_count_apart(process->counters, ALLOGRAM_PROFILER, 1, event->own_words);
    }
    ag_heap_growth_begin(&process->growth, &event->as_read);
    process->returnable_words = 0;
    process->is_running = is_running;
    process->last_kind = (uint8_t)kind;
    process->last_clock = ag_event_clock_now();
}

static uint32_t depth_of(const struct event *event) {
    return (uint32_t)(event->as_read.end - event->as_read.stack);
}

/* ---- calls and returns ---- */

static bool mfa_of(ErlNifEnv *env, ERL_NIF_TERM term, struct ag_mfa *ret_mfa) {
    const ERL_NIF_TERM *parts;
    int n_parts, arity;
    if (!enif_get_tuple(env, term, &n_parts, &parts) || n_parts != 3 ||
        !enif_get_int(env, parts[2], &arity)) {
        return false;
    }
    *ret_mfa = (struct ag_mfa){.module = parts[0], .function = parts[1], .arity = (uint32_t)arity};
    return true;
}

/* Searches the chain of tail calls that ends at the last level (levels of equal depth) for the
 * function. Returns the index of its level; n_levels: there is none. */
static uint32_t level_in_chain(const struct ag_traced_process *process, uint32_t depth,
                               allogram_function function) {
    for (uint32_t level = process->n_levels; level > 0; level--) {
        if (process->levels[level - 1].stack_words != depth) {
            break;
        }
        if (process->levels[level - 1].function == function && function != 0) {
            return level - 1;
        }
    }
    return process->n_levels;
}

/* The same as mfa_of for an event's own tuple. Reads the tuple in place, which saves two calls of
 * the emulator. */
static bool event_mfa(const struct event *event, ERL_NIF_TERM term, struct ag_mfa *ret_mfa) {
    enum { BOXED = 2, SMALL_BITS = 4, SMALL = 15 };
    const ERL_NIF_TERM *tuple = (const ERL_NIF_TERM *)(uintptr_t)(term - BOXED);
    if (event->own_words == 0 || (tuple[3] & SMALL) != SMALL) {
        return false;
    }
    *ret_mfa = (struct ag_mfa){
        .module = tuple[1], .function = tuple[2], .arity = (uint32_t)(tuple[3] >> SMALL_BITS)};
    return true;
}

/* Called at the first calls in a process that was started with a fun. Returns whether the call is
 * that of erlang:apply/2: then the counters are made at the next event. MFA: NULL if it is
 * unknown. */
AG_COLD static bool is_early_call(const struct event *event, uint32_t depth,
                                  allogram_function function, const struct ag_mfa *mfa) {
    struct ag_traced_process *process = event->process;
    char name[AG_PROCESS_NAME_BYTES] = AG_FUN_CALL;
    const bool is_apply = mfa != NULL && mfa->module == atoms.erlang &&
                          mfa->function == atoms.apply && mfa->arity == 2;
    if (is_apply && process->early_function == 0 && ag_traced_process_has_level(process)) {
        process->early_function = function;
        process->early_words = words_of(event);
        process->levels[process->n_levels++] =
            (struct ag_level){.stack_words = depth, .function = function};
        return true;
    }
    if (mfa != NULL) {
        ag_function_name(mfa, name, sizeof name);
    }
    ag_traced_process_begin(process, name);
    return false;
}

/* The caller of a called function if it is not the innermost level: a function that is not traced,
 * or that was called before it was traced. Returns 0 if it is the innermost level, or is not
 * known. */
static allogram_function untraced_caller(const struct event *event) {
    const struct ag_traced_process *process = event->process;
    struct ag_mfa mfa;
    const allogram_function caller = ag_callers_are_known && ag_caller_find(&event->as_read, &mfa)
                                         ? ag_function_handle(&mfa)
                                         : 0;
    const bool is_innermost =
        process->n_levels > 0 && process->levels[process->n_levels - 1].function == caller;
    return is_innermost ? 0 : caller;
}

/* Enters the caller of the function that is entered next. Its level has the depth of that function,
 * so both levels are removed together, and the words that the caller allocates later are not
 * counted as its own. The level has no function, so that no tail call finds it. */
static void enter_caller(struct ag_traced_process *process, uint32_t depth,
                         allogram_function caller) {
    if (ag_traced_process_has_level(process)) {
        allogram_enter_caller(process->counters, caller);
        process->levels[process->n_levels++] = (struct ag_level){.stack_words = depth};
    }
}

/* Called at the first call of a process that was not traced from its start, or whose tracing was
 * interrupted: searches its stack for the functions that are already running. */
AG_COLD static void find_outer(const struct event *event) {
    struct ag_traced_process *process = event->process;
    struct ag_caller callers[AG_PROCESS_FIRST_LEVELS];
    uint32_t n = 0;
    if (ag_callers_are_known) {
        n = ag_callers_find_all(&event->as_read, callers, AG_PROCESS_FIRST_LEVELS);
    }
    process->knows_outer = true;
    process->is_whole = n > 0 && n <= AG_PROCESS_FIRST_LEVELS;
    process->n_outer = process->is_whole ? n : 0;
    for (uint32_t i = 0; i < process->n_outer; i++) {
        /* the first function of a process is called by code of the emulator, which OTP 29 names
         * erts_beamasm:run_process/3 */
        if (callers[i].mfa.module == atoms.erts_beamasm) {
            process->n_outer = i;
            break;
        }
        process->outer[i] = (struct ag_level){.stack_words = callers[i].stack_words,
                                              .function = ag_function_handle(&callers[i].mfa)};
    }
}

/* HAS_OTHERS: not all functions are traced. */
static void take_call(struct event *event, ERL_NIF_TERM term, bool has_others) {
    struct ag_traced_process *process = event->process;
    allogram_function caller = 0;
    struct ag_mfa mfa;
    uint32_t depth = depth_of(event);
    const allogram_function function = event_mfa(event, term, &mfa) ? ag_function_handle(&mfa) : 0;
    while (process->n_levels > 0 && process->levels[process->n_levels - 1].stack_words >= depth) {
        process->n_levels--;
    }
    if (process->n_levels > 0 &&
        process->levels[process->n_levels - 1].stack_words + return_words == depth) {
        depth -= return_words;
        process->n_levels = level_in_chain(process, depth, function);
    } else if (has_others || process->n_levels == 0) {
        caller = untraced_caller(event);
    }
    if (AG_UNLIKELY(has_others)) {
        process->is_whole = false;
    } else if (AG_UNLIKELY(!process->knows_outer)) {
        find_outer(event);
    }
    if (AG_UNLIKELY(process->is_unnamed) &&
        is_early_call(event, depth, function, function != 0 ? &mfa : NULL)) {
        return;
    }
    const uint64_t words = words_of(event), ns = ns_of(event, AG_EVENT_CALL);
    const bool is_left_out =
        function == 0 || (ag_selection.has_functions && !ag_function_is_selected(function));
    if (AG_UNLIKELY(is_left_out) || !ag_traced_process_has_level(process)) {
        allogram_step(process->counters, process->n_levels, 0, words, ns);
        return;
    }
    allogram_step(process->counters, process->n_levels, caller != 0 ? 0 : function, words, ns);
    if (AG_UNLIKELY(caller != 0)) {
        enter_caller(process, depth, caller);
        if (!ag_traced_process_has_level(process)) {
            return;
        }
        allogram_step(process->counters, process->n_levels, function, 0, 0);
    }
    process->levels[process->n_levels++] =
        (struct ag_level){.stack_words = depth, .function = function};
}

static void take_return(struct event *event) {
    struct ag_traced_process *process = event->process;
    ag_traced_process_begin(process, AG_FUN_CALL);
    const uint32_t depth = depth_of(event) - (return_words - 1);
    while (process->n_levels > 0 && process->levels[process->n_levels - 1].stack_words >= depth) {
        process->n_levels--;
    }
    allogram_step(process->counters, process->n_levels, 0, words_of(event),
                  ns_of(event, AG_EVENT_RETURN));
}

static void learn_interval(uint64_t begin, enum ag_event_kind kind) {
    if (learning.last_clock != 0) {
        ag_event_clock_learn(learning.last_clock, begin, learning.last_kind, kind);
    }
    learning.last_kind = (uint8_t)kind;
}

/* check_leaf/1 is called by check_body/2, except once, by a tail call of check_tail/1. That call
 * always counts as wrong. */
static void learn_caller(ErlNifEnv *env, ERL_NIF_TERM term) {
    struct ag_process_heap heap;
    struct ag_mfa called, caller;
    if (!mfa_of(env, term, &called) || called.function != atoms.check_leaf) {
        return;
    }
    ag_process_read(env, &heap);
    const bool is_right = ag_caller_find(&heap, &caller) && caller.module == called.module &&
                          caller.function == atoms.check_body && caller.arity == 2;
    learning.n_right += is_right;
    learning.n_wrong += !is_right;
}

static void learn_from(ErlNifEnv *env, uint64_t begin, bool is_call, ERL_NIF_TERM term) {
    const uint64_t *const *process = (const uint64_t *const *)ag_env_word(env, AG_ENV_PROCESS);
    const uint64_t depth =
        (uint64_t)(process[ag_process_layout.heap_end] - process[ag_process_layout.stack_top]);
    learn_interval(begin, is_call ? AG_EVENT_CALL : AG_EVENT_RETURN);
    if (learning.n_calls == 0) {
        learning.first_depth = depth;
    } else if (learning.n_calls == 1) {
        learning.second_depth = depth;
        learning.is_same = true;
    } else if (learning.n_calls < 100) { /* all calls of the loop of tail calls except the first */
        learning.is_same &= depth == learning.second_depth;
    }
    learning.n_calls++;
    if (is_call) {
        learn_caller(env, term);
    }
    learning.last_clock = ag_event_clock_now();
}

static ERL_NIF_TERM trace_call(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct event event;
    (void)argc;
    const bool is_call = argv[0] == atoms.call;
    const bool is_asked = is_call && question.pid == argv[2];
    const uint64_t now = ag_event_clock_now();
    event.begin = is_call ? begin_of(argv[2]) : now;
    if (AG_UNLIKELY(learning.pid == argv[2])) {
        if (is_asked) {
            ag_event_clock_learn_pace(now - event.begin);
        }
        learn_from(env, event.begin, is_call, argv[3]);
        return atoms.ok;
    }
    if (is_asked) {
        ag_event_pace_add(now - event.begin);
    }
    event.process = ag_traced_process_get(argv[2], NULL, "");
    if (event.process == NULL || !read_event(env, argv[2], argv[3], &event)) {
        return atoms.ok;
    }
    note_running(event.process);
    if (is_asked && question.top != NULL) {
        take_off_binary(&event);
    }
    if (is_call) {
        take_call(&event, argv[3], argv[1] == atoms.some_functions);
    } else {
        take_return(&event);
    }
    end_event(&event, is_call ? AG_EVENT_CALL : AG_EVENT_RETURN, /* is_running= */ true);
    return atoms.ok;
}

/* ---- collections ---- */

/* The size of the heap in bytes: the sum of its parts in the information about a collection. */
static uint64_t heap_bytes(ErlNifEnv *env, ERL_NIF_TERM list) {
    ERL_NIF_TERM head;
    uint64_t words = 0;
    while (enif_get_list_cell(env, list, &head, &list)) {
        const ERL_NIF_TERM *pair;
        int n_parts;
        unsigned long number;
        if (enif_get_tuple(env, head, &n_parts, &pair) && n_parts == 2 &&
            (pair[0] == atoms.heap_size || pair[0] == atoms.old_heap_size ||
             pair[0] == atoms.mbuf_size) &&
            enif_get_ulong(env, pair[1], &number)) {
            words += number;
        }
    }
    return words * WORD;
}

/* If no call is traced, only a process with a name has an entry (allogram_attached.erl). The
 * collections of the other processes are recorded through a set of counters that belongs to the
 * thread. An entry for each process would take 2 KiB, and would take longer to make than a short
 * process lives. One set for each thread is enough, because a collection begins and ends in one
 * thread. */
static allogram_counters *set_of_thread(ERL_NIF_TERM pid) {
    static _Thread_local struct {
        allogram_counters *set;
        ERL_NIF_TERM pid; /* the process whose name the set has */
    } thread;
    const struct allogram_counters_options options = {.size = sizeof options,
                                                      .runtime = AG_BEAM_RUNTIME,
                                                      .process = "?",
                                                      .word_bytes = sizeof(ERL_NIF_TERM),
                                                      .clock = ALLOGRAM_NO_CLOCK};
    if (thread.set == NULL) {
        thread.set = allogram_counters_new(&options);
    }
    if (thread.pid != pid) {
        char name[AG_PROCESS_NAME_BYTES];
        (void)enif_snprintf(name, sizeof name, "%T", pid);
        allogram_counters_rename(thread.set, name);
        thread.pid = pid;
    }
    return thread.set;
}

static void take_collection(ErlNifEnv *env, ERL_NIF_TERM tag, ERL_NIF_TERM pid,
                            ERL_NIF_TERM facts) {
    const struct ag_traced_process *process = ag_traced_process_find(pid);
    allogram_counters *set = process != NULL ? process->counters : set_of_thread(pid);
    if (tag == atoms.gc_minor_start || tag == atoms.gc_major_start) {
        allogram_counters_gc_begin(set, 0, heap_bytes(env, facts));
    } else if (tag == atoms.gc_minor_end || tag == atoms.gc_major_end) {
        allogram_counters_gc_end(set, tag == atoms.gc_minor_end ? "minor" : "major",
                                 heap_bytes(env, facts));
    }
}

static ERL_NIF_TERM trace_garbage_collection(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct event event;
    event.begin = begin_of(argv[2]);
    (void)argc;
    if (argv[1] == atoms.collections || argv[1] == atoms.some_collections) {
        take_collection(env, argv[0], argv[2], argv[3]);
        return atoms.ok;
    }
    if (AG_UNLIKELY(learning.pid == argv[2])) {
        if (argv[0] == atoms.gc_minor_start || argv[0] == atoms.gc_major_start) {
            learn_interval(event.begin, AG_EVENT_OTHER);
        }
        learning.last_kind = AG_EVENT_OTHER;
        learning.last_clock = ag_event_clock_now();
        return atoms.ok;
    }
    event.process = ag_traced_process_get(argv[2], NULL, "");
    if (event.process == NULL || !read_event(env, argv[2], 0, &event)) {
        return atoms.ok;
    }
    ag_traced_process_begin(event.process, AG_FUN_CALL);
    allogram_counters *counters = event.process->counters;
    const bool is_running = event.process->is_running;
    if (argv[0] == atoms.gc_minor_start || argv[0] == atoms.gc_major_start) {
        allogram_step(counters, event.process->n_levels, 0, words_of(&event),
                      ns_of(&event, AG_EVENT_OTHER));
        allogram_counters_gc_begin(counters, 0, heap_bytes(env, argv[3]));
    } else if (argv[0] == atoms.gc_minor_end || argv[0] == atoms.gc_major_end) {
        allogram_counters_gc_end(counters, argv[0] == atoms.gc_minor_end ? "minor" : "major",
                                 heap_bytes(env, argv[3]));
    }
    end_event(&event, AG_EVENT_OTHER, is_running);
    return atoms.ok;
}

/* ---- being scheduled, messages, birth and death ---- */

static ERL_NIF_TERM trace_running_procs(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct event event;
    event.begin = begin_of(argv[2]);
    (void)argc;
    const bool is_in = argv[0] == atoms.in;
    running.process = NULL;
    event.process = is_in ? ag_traced_process_get(argv[2], NULL, "")
                          : ag_traced_process_find(argv[2]); /* no new entry for a process that
                                                              * ends */
    if (event.process == NULL || !read_event(env, argv[2], argv[3], &event)) {
        return atoms.ok;
    }
    uint64_t returnable = event.process->returnable_words;
    if (!is_in) {
        ag_traced_process_begin(event.process, AG_FUN_CALL);
        const uint64_t words = words_of(&event);
        allogram_step(event.process->counters, event.process->n_levels, 0, words,
                      ns_of(&event, AG_EVENT_OTHER));
        returnable += words;
    }
    end_event(&event, AG_EVENT_OTHER, is_in);
    event.process->returnable_words = returnable;
    if (is_in) {
        note_running(event.process);
    }
    return atoms.ok;
}

/* Whether a message has the form of those about the ends of other processes and ports, which are
 * {Tag, Reference, process, Pid, Reason} and {'EXIT', Pid, Reason}, or of the replies to
 * spawn_request, which are {Tag, Reference, ok, Pid} and {Tag, Reference, error, Reason}. The
 * program chooses the tags. */
static bool is_of_emulator(ErlNifEnv *env, ERL_NIF_TERM message) {
    const ERL_NIF_TERM *parts;
    int n_parts;
    if (!enif_get_tuple(env, message, &n_parts, &parts)) {
        return false;
    }
    return n_parts == 3 ? parts[0] == atoms.exit_message
           : n_parts == 4
               ? enif_is_ref(env, parts[1]) && (parts[2] == atoms.ok || parts[2] == atoms.error)
           : n_parts == 5 ? enif_is_ref(env, parts[1]) && enif_is_atom(env, parts[2])
                          : false;
}

/* Called when a message moves to the queue of the process. A process makes some messages itself, on
 * its own heap, while it runs: those about the ends of other processes (DOWN, EXIT) and the replies
 * to spawn_request. Their words are new on the heap since the last event, and no function has
 * allocated them. Any other message that is new on the heap is one that the process has sent to
 * itself: the emulator does not copy it, and its words are those of the function that made it. */
static ERL_NIF_TERM trace_receive(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    struct ag_traced_process *process = ag_traced_process_get(argv[2], NULL, "");
    if (process == NULL) {
        return atoms.ok;
    }
    uint64_t words = 0;
    ag_traced_process_begin(process, AG_FUN_CALL);
    if (!ag_heap_growth_has_term(&process->growth, argv[3])) {
        words = ag_term_size(argv[3]);
    } else if (is_of_emulator(env, argv[3])) {
        words = ag_term_size(argv[3]);
        ag_heap_growth_skip_term(&process->growth, argv[3], words);
    }
    allogram_count_apart(process->counters, ALLOGRAM_MESSAGES, 1, words);
    return atoms.ok;
}

/* Stores the first elements of a list, at most N. Returns the number of stored elements. */
static unsigned first_of(ErlNifEnv *env, ERL_NIF_TERM list, ERL_NIF_TERM *ret_elements,
                         unsigned n) {
    unsigned count = 0;
    while (count < n && enif_get_list_cell(env, list, &ret_elements[count], &list)) {
        count++;
    }
    return count;
}

/* The first function of a process, past the functions of OTP that start it. proc_lib and gen start
 * the processes of OTP's behaviours and have the function among their arguments. A gen_server,
 * gen_statem, ... is identified by its module's init/1, as OTP itself does in '$initial_call'. */
static struct ag_mfa initial_call(ErlNifEnv *env, struct ag_mfa spawned, ERL_NIF_TERM arguments) {
    enum { PARENT, ANCESTORS, MODULE, FUNCTION, ARGUMENTS, OF_PROC_LIB, OF_GEN = 7 };
    ERL_NIF_TERM given[OF_GEN], of_gen[OF_GEN];
    unsigned arity;
    if (spawned.module != atoms.proc_lib || spawned.function != atoms.init_p ||
        first_of(env, arguments, given, OF_PROC_LIB) != OF_PROC_LIB ||
        enif_get_list_length(env, given[ARGUMENTS], &arity) == 0) {
        return spawned;
    }
    /* gen:init_it(Behaviour, Starter, Parent, [Name,] Module, Arguments, Options) */
    if (given[MODULE] == atoms.gen && given[FUNCTION] == atoms.init_it &&
        (arity == 6 || arity == OF_GEN) &&
        first_of(env, given[ARGUMENTS], of_gen, OF_GEN) == arity &&
        of_gen[0] != atoms.gen_event /* a gen_event has no module of its own */) {
        return (struct ag_mfa){.module = of_gen[arity - 3], .function = atoms.init, .arity = 1};
    }
    return (struct ag_mfa){.module = given[MODULE], .function = given[FUNCTION], .arity = arity};
}

/* Number of processes that --process has selected. It is incremented after the process got its
 * entry. */
static _Atomic uint32_t n_chosen_processes;

static void note_chosen(void) {
    if (ag_selection.has_processes) {
        /* release: pairs with the acquire in is_left_out */
        atomic_fetch_add_explicit(&n_chosen_processes, 1, memory_order_release);
    }
}

static void note_birth(struct ag_traced_process *process) {
    if (process != NULL) {
        process->knows_outer = process->is_whole = true;
    }
}

/* Called when a process was spawned: records its first function and the arguments that were copied
 * for it. */
static void take_birth(ErlNifEnv *env, ERL_NIF_TERM pid, ERL_NIF_TERM options) {
    ERL_NIF_TERM call;
    const ERL_NIF_TERM *parts;
    int n_parts;
    unsigned arity;
    char name[AG_PROCESS_NAME_BYTES] = "";
    const bool is_known = enif_get_map_value(env, options, atoms.extra, &call) &&
                          enif_get_tuple(env, call, &n_parts, &parts) && n_parts == 3 &&
                          enif_get_list_length(env, parts[2], &arity);
    struct ag_mfa mfa = {0};
    ERL_NIF_TERM inner;
    const ERL_NIF_TERM *inner_parts;
    /* spawn_request: the arguments are [{Module, Function, Arguments}] */
    if (is_known && parts[0] == atoms.erts_internal && parts[1] == atoms.spawn_init && arity == 1 &&
        first_of(env, parts[2], &inner, 1) == 1 &&
        enif_get_tuple(env, inner, &n_parts, &inner_parts) && n_parts == 3 &&
        inner_parts[0] != atoms.erlang && enif_get_list_length(env, inner_parts[2], &arity)) {
        mfa = (struct ag_mfa){.module = inner_parts[0], .function = inner_parts[1], .arity = arity};
    } else if (is_known) {
        mfa = (struct ag_mfa){.module = parts[0], .function = parts[1], .arity = arity};
    }
    const struct ag_mfa spawned = mfa;
    mfa = is_known ? initial_call(env, spawned, parts[2]) : spawned;
    if (ag_selection.has_processes && !ag_selection_has_process(pid, 0, &spawned) &&
        !ag_selection_has_process(pid, 0, &mfa)) {
        return;
    }
    if (is_known && spawned.module == atoms.erlang && spawned.function == atoms.apply &&
        spawned.arity == 2) {
        note_birth(ag_traced_process_get_unnamed(pid, ag_term_size(parts[2])));
        note_chosen();
        return;
    }
    if (is_known) {
        ag_function_name(&mfa, name, sizeof name);
    }
    struct ag_traced_process *process = ag_traced_process_get(pid, NULL, name);
    note_birth(process);
    if (process != NULL && is_known) {
        allogram_count_apart(process->counters, ALLOGRAM_ARGUMENTS, 1, ag_term_size(parts[2]));
    }
    note_chosen();
}

/* Called when the process spawned another one. The words of the event's tuple on the spawning
 * process' heap are counted as the profiler's. ENV is not the environment of that process, but the
 * addresses of its heap are known from its last event. */
static void take_spawn(ErlNifEnv *env, ERL_NIF_TERM pid, ERL_NIF_TERM child, ERL_NIF_TERM options) {
    struct ag_traced_process *process = ag_traced_process_find(pid);
    const ERL_NIF_TERM *parts;
    ERL_NIF_TERM call;
    int n_parts;
    if (process == NULL || !process->growth.has_begun ||
        !enif_get_map_value(env, options, atoms.extra, &call) ||
        !enif_get_tuple(env, call, &n_parts, &parts)) {
        return;
    }
    ag_traced_process_begin(process, AG_FUN_CALL);
    process->spawned = child;
    struct ag_heap_growth *growth = &process->growth;
    const uint64_t *at = (const uint64_t *)parts;
    if (at >= growth->heap && at < growth->end) {
        growth->used_words += AG_EVENT_TUPLE_WORDS;
    } else {
        growth->fragment_words += AG_EVENT_TUPLE_WORDS;
    }
    allogram_count_apart(process->counters, ALLOGRAM_PROFILER, 1, AG_EVENT_TUPLE_WORDS);
}

static ERL_NIF_TERM trace_procs(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    if (argv[0] == atoms.spawn) {
        take_spawn(env, argv[2], argv[3], argv[4]);
    } else if (argv[0] == atoms.spawned) {
        take_birth(env, argv[2], argv[4]);
    } else if (argv[0] == atoms.exit) {
        if (running.process != NULL && running.process->pid == argv[2]) {
            running.process = NULL;
        }
        if (argv[2] != kept_pid) {
            ag_traced_process_end(argv[2]);
        }
    } else if (argv[0] == atoms.registered) {
        struct ag_traced_process *process = ag_traced_process_find(argv[2]);
        char name[AG_PROCESS_NAME_BYTES];
        if (enif_snprintf(name, sizeof name, "%T", argv[3]) <= 0) {
            return atoms.ok;
        }
        if (process != NULL) {
            ag_traced_process_begin(process, AG_FUN_CALL);
            allogram_counters_rename(process->counters, name);
        } else if (ag_selection.has_processes && ag_selection_has_process(argv[2], argv[3], NULL)) {
            (void)ag_traced_process_get(argv[2], name, "");
            note_chosen();
        }
    }
    return atoms.ok;
}

static ERL_NIF_TERM trace_other(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    return atoms.ok;
}

/* Before a call the emulator asks twice: by enabled/3, then by enabled_call/3. */
static ERL_NIF_TERM is_wanted(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    question.pid = argv[2];
    question.clock = ag_event_clock_now();
    return atoms.trace;
}

/* With --process, a process that is not selected has no entry. It is traced nevertheless, because
 * it may get a selected name later; its events are refused before the emulator makes them. */
AG_COLD static bool is_left_out(ERL_NIF_TERM pid) {
    static _Thread_local struct {
        ERL_NIF_TERM pid;
        uint32_t n_chosen;
    } last; /* the process that was found to be left out */
    const uint32_t n_chosen = atomic_load_explicit(&n_chosen_processes, memory_order_acquire);
    if (last.pid == pid && last.n_chosen == n_chosen) {
        return true;
    }
    if (ag_traced_process_find(pid) != NULL) {
        return false;
    }
    last.pid = pid;
    last.n_chosen = n_chosen;
    return true;
}

static ERL_NIF_TERM is_call_wanted(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    const struct ag_traced_process *process = running.process;
    (void)env;
    (void)argc;
    question.top = NULL;
    if (AG_LIKELY(process != NULL && process->pid == argv[2] && process->structure != NULL)) {
        const uint64_t *words = process->structure;
        question.top = ((const uint64_t *const *)words)[ag_process_layout.heap_top];
        question.fragment_words = words[ag_process_layout.fragment_words];
    }
    return AG_UNLIKELY(ag_selection.has_processes) && is_left_out(argv[2]) ? atoms.discard
                                                                           : atoms.trace;
}

/* Answers for all events of a process except those about its beginning, its name and its end. */
static ERL_NIF_TERM is_process_wanted(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    const ERL_NIF_TERM answer = is_wanted(env, argc, argv);
    return AG_UNLIKELY(ag_selection.has_processes) && is_left_out(argv[2]) ? atoms.discard : answer;
}

/* ---- which collections are recorded ---- */

/* Before the events of a collection the emulator makes a list of facts, which takes some 5 us,
 * longer than many collections. So with the tracer's state `some_collections`, a thread records
 * about A_PERIOD_MOST collections in 10 ms, which takes 1 % of its time. Each collection is
 * recorded with the same probability, computed from the number of collections in the 10 ms
 * before. */
enum { PERIOD_NS = 10 * 1000 * 1000, A_PERIOD_MOST = 20 };
struct collection_choice {
    uint64_t period_ns;      /* begin of the period */
    uint32_t n_in_period;    /* collections in the period so far */
    uint32_t probability;    /* times 2^32; 0: not computed yet */
    uint64_t random;         /* state of an xorshift generator */
    ERL_NIF_TERM chosen_pid; /* whose collection is recorded now; 0: none */
};
static _Thread_local struct collection_choice choice;
static _Atomic uint64_t n_collections, n_recorded; /* with the state some_collections */

static uint32_t draw(void) {
    choice.random ^= choice.random << 13;
    choice.random ^= choice.random >> 7;
    choice.random ^= choice.random << 17;
    return (uint32_t)(choice.random >> 32);
}

static void begin_period(uint64_t now_ns) {
    if (choice.random == 0) {
        choice.random = now_ns ^ (uintptr_t)&choice;
    }
    choice.probability = choice.n_in_period <= A_PERIOD_MOST
                             ? UINT32_MAX
                             : (uint32_t)(((uint64_t)A_PERIOD_MOST << 32) / choice.n_in_period);
    choice.n_in_period = 0;
    choice.period_ns = now_ns;
}

static ERL_NIF_TERM is_collection_wanted(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    if (argv[1] != atoms.some_collections) {
        return is_process_wanted(env, argc, argv);
    }
    const bool is_start = argv[0] == atoms.gc_minor_start || argv[0] == atoms.gc_major_start;
    const bool is_end = argv[0] == atoms.gc_minor_end || argv[0] == atoms.gc_major_end;
    if (is_start) {
        const uint64_t now_ns = ag_monotonic_ns();
        if (now_ns - choice.period_ns > PERIOD_NS) {
            begin_period(now_ns);
        }
        choice.n_in_period++;
        choice.chosen_pid = draw() <= choice.probability ? argv[2] : 0;
        atomic_fetch_add_explicit(&n_collections, 1, memory_order_relaxed);
        if (choice.chosen_pid != 0) {
            atomic_fetch_add_explicit(&n_recorded, 1, memory_order_relaxed);
        }
    }
    /* any other tag asks whether the process is traced at all */
    return (is_start || is_end) && choice.chosen_pid != argv[2] ? atoms.discard : atoms.trace;
}

/* Returns {Seen, Recorded}: the numbers of all and of the recorded collections of processes with
 * the state `some_collections`. Sets both numbers to 0. */
static ERL_NIF_TERM take_collections(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    (void)argv;
    return enif_make_tuple2(
        env,
        enif_make_uint64(env, atomic_exchange_explicit(&n_collections, 0, memory_order_relaxed)),
        enif_make_uint64(env, atomic_exchange_explicit(&n_recorded, 0, memory_order_relaxed)));
}

/* ---- functions that allogram.erl calls ---- */

/* find_layout(Literal): see ag_term_size_start. */
static ERL_NIF_TERM find_layout(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    if (ag_process_layout.is_known && return_words != 0) {
        return atoms.known;
    }
    if (ag_function_handles_start() < 0) {
        return enif_make_string(env, "no memory for the table of functions", ERL_NIF_LATIN1);
    }
    const char *missing = ag_process_layout_find(env);
    if (missing != NULL) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "this emulator's memory layout is not known: %s was not found", missing);
        return enif_make_string(env, text, ERL_NIF_LATIN1);
    }
    are_sizes_known = ag_term_size_start(env, argv[0]);
    clock_error_ppm = ag_event_clock_start();
    return atoms.found;
}

static ERL_NIF_TERM learn(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    memset(&learning, 0, sizeof learning);
    learning.pid = argv[0];
    return atoms.ok;
}

static ERL_NIF_TERM learned(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    (void)argv;
    const uint64_t words = learning.second_depth - learning.first_depth;
    learning.pid = 0;
    if (!learning.is_same || words == 0 || words > RETURN_WORDS_MOST) {
        return enif_make_string(
            env, "this emulator's memory layout is not known: tail calls were not recognized",
            ERL_NIF_LATIN1);
    }
    return_words = (uint32_t)words;
    ag_callers_are_known = learning.n_right > 0 && learning.n_wrong <= 1;
    ag_event_clock_settle();
    return atoms.ok;
}

static ERL_NIF_TERM name_process(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    char name[AG_PROCESS_NAME_BYTES], call[AG_PROCESS_NAME_BYTES] = "";
    struct ag_mfa mfa;
    (void)argc;
    if (enif_get_string(env, argv[1], name, sizeof name, ERL_NIF_LATIN1) == 0) {
        return enif_make_badarg(env);
    }
    if (mfa_of(env, argv[2], &mfa)) {
        ag_function_name(&mfa, call, sizeof call);
    }
    (void)ag_traced_process_get(argv[0], name, call);
    note_chosen();
    return atoms.ok;
}

/* select_counted(Functions, Processes): see ag_selection_set. */
static ERL_NIF_TERM select_counted(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    return ag_selection_set(env, argv[0], argv[1]) ? atoms.ok : enif_make_badarg(env);
}

static ERL_NIF_TERM keep_process(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    kept_pid = argv[0];
    return atoms.ok;
}

static ERL_NIF_TERM forget_all(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    kept_pid = 0;
    end_era();
    ag_traced_processes_end_all();
    return atoms.ok;
}

static ERL_NIF_TERM is_paused(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    return allogram_is_there_() && allogram_session_is_paused() ? atoms.yes : atoms.no;
}

/* rest(IsResting): see allogram_session_rest. */
static ERL_NIF_TERM rest(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    allogram_session_rest(argv[0] == atoms.yes);
    return atoms.ok;
}

/* Called when tracing has stopped for a pause: the processes keep their counters, but their calls
 * are not followed. */
static ERL_NIF_TERM lose_track(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    end_era();
    ag_traced_processes_lose_track();
    return atoms.ok;
}

/* Called before tracing begins again: ends the entries of the processes that ended in the pause. */
static ERL_NIF_TERM forget_dead(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    (void)argv;
    ag_traced_processes_end_dead(env);
    return atoms.ok;
}

struct listing {
    ErlNifEnv *env;
    ERL_NIF_TERM list;
};

static void list_path(void *context, const struct allogram_path *path) {
    struct listing *listing = context;
    ErlNifEnv *env = listing->env;
    const struct ag_mfa *mfa = ag_function_mfa(path->function);
    const ERL_NIF_TERM function = mfa != NULL ? enif_make_tuple3(env, mfa->module, mfa->function,
                                                                 enif_make_uint(env, mfa->arity))
                                              : atoms.undefined;
    const ERL_NIF_TERM row =
        enif_make_tuple6(env, enif_make_uint(env, path->node), enif_make_uint(env, path->parent),
                         function, enif_make_uint64(env, path->calls),
                         enif_make_uint64(env, path->words), enif_make_uint64(env, path->ns));
    listing->list = enif_make_list_cell(env, row, listing->list);
}

/* Returns the table of a process: [{Node, Parent, {M, F, A}, Calls, Words, Nanoseconds}]. */
static ERL_NIF_TERM table(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct listing listing = {.env = env, .list = enif_make_list(env, 0)};
    const struct ag_traced_process *process = ag_traced_process_find(argv[0]);
    (void)argc;
    if (process != NULL) {
        allogram_counters_visit(process->counters, &listing, list_path);
    }
    return listing.list;
}

static ERL_NIF_TERM is_recording(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    return allogram_is_there_() && allogram_mode_ & ALLOGRAM_COUNTS_ ? atoms.yes : atoms.no;
}

static ERL_NIF_TERM begin_session(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    char output[4096], message[512] = "";
    (void)argc;
    if (enif_get_string(env, argv[0], output, sizeof output, ERL_NIF_LATIN1) <= 0) {
        return enif_make_badarg(env);
    }
    const struct allogram_options options = {.size = sizeof options, .output = output};
    const int r = allogram_start(&options, message, sizeof(message));
    return r == 0           ? atoms.ok
           : r == -EALREADY ? atoms.joined
                            : enif_make_string(env, message, ERL_NIF_LATIN1);
}

/* Called for `allogram attach`: returns ok, or the reason of the failure. */
static ERL_NIF_TERM join_session(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    char path[4096], message[512] = "";
    (void)argc;
    may_unmap = false;
    if (enif_get_string(env, argv[0], path, sizeof path, ERL_NIF_LATIN1) <= 0) {
        return enif_make_badarg(env);
    }
    return allogram_session_join(path, message, sizeof(message)) == 0
               ? atoms.ok
               : enif_make_string(env, message, ERL_NIF_LATIN1);
}

static ERL_NIF_TERM report_session(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    allogram_session_tell();
    return atoms.ok;
}

static ERL_NIF_TERM end_session(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    (void)argv;
    (void)allogram_stop(); /* no session need be running */
    return enif_make_string(env, allogram_trace(), ERL_NIF_LATIN1);
}

/* ---- leaving the node ---- */

/* Dirty schedulers (threads for long work) also have events. Unlike the other schedulers they are
 * not stopped when a module is unloaded. So each dirty scheduler has to call meet(N) at a time when
 * nothing is traced: meet(N) returns true if N schedulers are in it at the same time. */
static _Atomic uint32_t n_meeting;

static ERL_NIF_TERM begin_meeting(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    atomic_store_explicit(&n_meeting, 0, memory_order_relaxed);
    return atoms.ok;
}

static ERL_NIF_TERM meet(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    enum { MEET_NS = 200 * 1000 * 1000, LOOK_NS = 50 * 1000 };
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    const uint64_t until_ns = ag_monotonic_ns() + MEET_NS;
    unsigned n = 0;
    (void)argc;
    if (!enif_get_uint(env, argv[0], &n)) {
        return enif_make_badarg(env);
    }
    atomic_fetch_add_explicit(&n_meeting, 1, memory_order_relaxed);
    while (atomic_load_explicit(&n_meeting, memory_order_relaxed) < n) {
        if (ag_monotonic_ns() > until_ns) {
            return atoms.no;
        }
        (void)nanosleep(&pause, NULL); /* a signal only shortens it */
    }
    return atoms.yes;
}

static ERL_NIF_TERM allow_unmapping(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    may_unmap = true;
    return atoms.ok;
}

/* The emulator calls this when the module is purged, while no scheduler runs except dirty ones, and
 * then closes the library. */
static void tracer_unload(ErlNifEnv *env, void *private_data) {
    Dl_info place;
    (void)env;
    (void)private_data;
    if (may_unmap) {
        ag_recorder_unmap();
        ag_own_memory_give_back();
        if (kept_library != NULL) {
            (void)dlclose(kept_library); /* the emulator has another reference */
        }
    } else if (kept_library == NULL && dladdr(&may_unmap, &place) != 0) {
        kept_library = dlopen(place.dli_fname, RTLD_NOW | RTLD_NOLOAD); /* cannot fail: it is
                                                                         * loaded */
    }
}

/* Appends a sentence to a note. */
static void note_add(char *note, size_t bytes, const char *sentence) {
    const size_t length = strlen(note);
    (void)snprintf(note + length, bytes - length, "%s%s", length > 0 ? "; " : "", sentence);
}

/* Records the lines about the runtime at the top of a report: report_runtime(Release, IsCounted,
 * Note). IsCounted: the member is_hooked of allogram_runtime_options. */
static ERL_NIF_TERM report_runtime(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    enum { WRONG_PPM = 10 * 1000, A_PERCENT_PPM = 10 * 1000 };
    char release[64], note[512], clock[128];
    (void)argc;
    if (enif_get_string(env, argv[0], release, sizeof release, ERL_NIF_LATIN1) <= 0 ||
        enif_get_string(env, argv[2], note, sizeof note, ERL_NIF_LATIN1) == 0) {
        return enif_make_badarg(env);
    }
    const bool is_hooked = argv[1] == atoms.yes;
    if (is_hooked && !are_sizes_known) {
        note_add(note, sizeof note,
                 "words of messages and spawn arguments are not known; those of DOWN and EXIT "
                 "messages count in functions");
    }
    if (clock_error_ppm > WRONG_PPM) {
        (void)snprintf(clock, sizeof clock, "times may be wrong by %u %%: the machine was too busy",
                       clock_error_ppm / A_PERCENT_PPM);
        note_add(note, sizeof note, clock);
    }
    const struct allogram_runtime_options options = {.size = sizeof options,
                                                     .name = AG_BEAM_RUNTIME,
                                                     .version = release,
                                                     .note = note,
                                                     .is_hooked = is_hooked};
    allogram_runtime(&options);
    return atoms.ok;
}

/* Returns the text with which this function was called first: first_begin(Text). */
static ERL_NIF_TERM first_begin(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    static char first[128];
    (void)argc;
    if (first[0] == '\0' &&
        enif_get_string(env, argv[0], first, sizeof first, ERL_NIF_LATIN1) <= 0) {
        return enif_make_badarg(env);
    }
    return enif_make_string(env, first, ERL_NIF_LATIN1);
}

/* Adds the growth of the emulator's own counters of a function: count_calls(MFA, Calls, Words, Ns).
 * All processes share one row, "all processes". Called by one Erlang process at a time. */
static ERL_NIF_TERM count_calls(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    static allogram_counters *all;
    struct ag_mfa mfa;
    ErlNifUInt64 calls, words, ns;
    (void)argc;
    if (!mfa_of(env, argv[0], &mfa) || !enif_get_uint64(env, argv[1], &calls) ||
        !enif_get_uint64(env, argv[2], &words) || !enif_get_uint64(env, argv[3], &ns) ||
        ag_function_handles_start() < 0) {
        return enif_make_badarg(env);
    }
    if (all == NULL) {
        const struct allogram_counters_options options = {.size = sizeof options,
                                                          .runtime = AG_BEAM_RUNTIME,
                                                          .process = "all processes",
                                                          .word_bytes = sizeof(ERL_NIF_TERM),
                                                          .clock = ALLOGRAM_NO_CLOCK};
        all = allogram_counters_new(&options);
    }
    allogram_count_calls(all, ag_function_handle(&mfa), calls, words, ns);
    return atoms.ok;
}

/* Writes one line to standard error, not by Erlang's io, which would send it to a group
 * leader. */
static ERL_NIF_TERM say(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    char text[1024], line[1100];
    (void)argc;
    if (enif_get_string(env, argv[0], text, sizeof text, ERL_NIF_LATIN1) != 0) {
        const int length = snprintf(line, sizeof line, "allogram: %s\n", text);
        (void)!write(STDERR_FILENO, line, (size_t)length); /* an error cannot be reported anywhere
                                                            * else */
    }
    return atoms.ok;
}

/* ---- loading ---- */

static int tracer_load(ErlNifEnv *env, void **private_data, ERL_NIF_TERM info) {
    const struct {
        ERL_NIF_TERM *atom;
        const char *name;
    } list[] = {{&atoms.error, "error"},
                {&atoms.exit_message, "EXIT"},
                {&atoms.call, "call"},
                {&atoms.in, "in"},
                {&atoms.out, "out"},
                {&atoms.trace, "trace"},
                {&atoms.discard, "discard"},
                {&atoms.ok, "ok"},
                {&atoms.known, "known"},
                {&atoms.found, "found"},
                {&atoms.joined, "joined"},
                {&atoms.yes, "true"},
                {&atoms.no, "false"},
                {&atoms.undefined, "undefined"},
                {&atoms.gc_minor_start, "gc_minor_start"},
                {&atoms.gc_minor_end, "gc_minor_end"},
                {&atoms.gc_major_start, "gc_major_start"},
                {&atoms.gc_major_end, "gc_major_end"},
                {&atoms.heap_size, "heap_size"},
                {&atoms.old_heap_size, "old_heap_size"},
                {&atoms.mbuf_size, "mbuf_size"},
                {&atoms.wordsize, "wordsize"},
                {&atoms.collections, "collections"},
                {&atoms.some_collections, "some_collections"},
                {&atoms.some_functions, "some_functions"},
                {&atoms.check_leaf, "check_leaf"},
                {&atoms.check_body, "check_body"},
                {&atoms.proc_lib, "proc_lib"},
                {&atoms.init_p, "init_p"},
                {&atoms.gen, "gen"},
                {&atoms.init_it, "init_it"},
                {&atoms.init, "init"},
                {&atoms.gen_event, "gen_event"},
                {&atoms.spawn, "spawn"},
                {&atoms.spawned, "spawned"},
                {&atoms.exit, "exit"},
                {&atoms.registered, "register"},
                {&atoms.extra, "extra"},
                {&atoms.erlang, "erlang"},
                {&atoms.apply, "apply"},
                {&atoms.erts_internal, "erts_internal"},
                {&atoms.erts_beamasm, "erts_beamasm"},
                {&atoms.spawn_init, "spawn_init"},
                {&atoms.messages, "messages"},
                {&atoms.spawn_arguments, "spawn_arguments"},
                {&atoms.profiler, "profiler"}};
    (void)private_data;
    (void)info;
    for (size_t i = 0; i < AG_ARRAY_SIZE(list); i++) {
        *list[i].atom = enif_make_atom(env, list[i].name);
    }
    ag_callers_start();
    return 0;
}

static ErlNifFunc functions[] = {
    {"enabled", 3, is_wanted, 0},
    {"trace", 5, trace_other, 0},
    {"enabled_call", 3, is_call_wanted, 0},
    {"trace_call", 5, trace_call, 0},
    {"enabled_garbage_collection", 3, is_collection_wanted, 0},
    {"trace_garbage_collection", 5, trace_garbage_collection, 0},
    {"enabled_running_procs", 3, is_process_wanted, 0},
    {"trace_running_procs", 5, trace_running_procs, 0},
    {"enabled_procs", 3, is_wanted, 0},
    {"trace_procs", 5, trace_procs, 0},
    {"enabled_receive", 3, is_process_wanted, 0},
    {"trace_receive", 5, trace_receive, 0},
    {"find_layout", 1, find_layout, 0},
    {"learn", 1, learn, 0},
    {"learned", 0, learned, 0},
    {"name_process", 3, name_process, 0},
    {"keep_process", 1, keep_process, 0},
    {"select_counted", 2, select_counted, 0},
    {"forget_all", 0, forget_all, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"is_paused", 0, is_paused, 0},
    {"rest", 1, rest, 0},
    {"lose_track", 0, lose_track, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"forget_dead", 0, forget_dead, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"table", 1, table, 0},
    {"is_recording", 0, is_recording, 0},
    {"begin_session", 1, begin_session, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"join_session", 1, join_session, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"report_session", 0, report_session, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"end_session", 0, end_session, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"take_collections", 0, take_collections, 0},
    {"begin_meeting", 0, begin_meeting, 0},
    {"meet_cpu", 1, meet, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"meet_io", 1, meet, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"allow_unmapping", 0, allow_unmapping, 0},
    {"report_runtime", 3, report_runtime, 0},
    {"first_begin", 1, first_begin, 0},
    {"count_calls", 4, count_calls, 0},
    {"say", 1, say, 0},
};

ERL_NIF_INIT(allogram, functions, tracer_load, NULL, NULL, tracer_unload)
