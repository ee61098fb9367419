/* allogram_stubs.c: the C half of the OCaml library allogram.ml: calls the functions of allogram.h
 * for OCaml programs, and reports the blocks that Gc.Memprof, the runtime's sampler, passes to its
 * callbacks.
 *
 * The runtime translates each entry (slot) of a callstack to names once; a cache per thread keeps
 * the results. Code without debug information, such as the start of the program, has no frame.
 * OCaml moves its blocks, so the address of a block in the trace is a number that is never used
 * twice. */
#define CAML_NAME_SPACE
#define CAML_INTERNALS
#include <allogram/allogram.h>
#include <caml/alloc.h>
#include <caml/backtrace_prim.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/version.h>
#include <string.h>

#include "ocaml_name.h"

enum heap { HEAP_MINOR, HEAP_MAJOR, HEAP_MARSHAL, HEAPS };
enum { HEAP_BITS = 2, ADDRESS_STEP = 16, FRAMES_MOST = 64, SLOTS = 4096, INLINED_MOST = 8 };
enum { MESSAGE_BYTES = 512, SOURCE_MARSHAL = 1, SOURCE_CUSTOM = 2 };

static allogram_heap heaps[HEAPS];
static _Atomic uint64_t next_number = 1;

/* Defined in whole_stack.S; calls allogram_tell_allocs_ of allogram.h. */
extern void report_blocks(allogram_heap heap, const struct allogram_block *blocks,
                          size_t n_blocks) __asm__("Gc.Memprof");

/* ---- frames ---- */

static __thread struct {
    uintptr_t slot; /* 0: empty */
    uint32_t n_frames;
    struct allogram_frame frames[INLINED_MOST];
} * names;

static struct allogram_frame name_of(debuginfo debug_info) {
    char name[MESSAGE_BYTES];
    struct caml_loc_info place = {0};
    caml_debuginfo_location(debug_info, &place);
    const bool has_name = place.loc_valid && place.loc_defname != NULL &&
                          ag_ocaml_scoped_name(place.loc_defname, name, sizeof(name));
    const struct allogram_function_options options = {
        .size = sizeof(options),
        .name = has_name ? name : "(no debug information)",
        .file = place.loc_valid ? place.loc_filename : NULL,
        .runtime = "ocaml"};
    return (struct allogram_frame){
        .function = allogram_register_function(&options),
        .line = place.loc_valid && place.loc_lnum > 0 ? (uint32_t)place.loc_lnum : 0};
}

/* The functions at one slot, innermost first; none if the runtime has no debug information. */
static uint32_t frames_of(value slot, struct allogram_frame *frames, uint32_t most) {
    const uintptr_t key = (uintptr_t)slot;
    if (names == NULL) {
        names = caml_stat_calloc_noexc(SLOTS, sizeof(*names));
    }
    if (names == NULL) {
        return 0;
    }
    const size_t at = (key >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 52;
    if (names[at].slot != key) {
        uint32_t n = 0;
        for (debuginfo debug_info = caml_debuginfo_extract(Backtrace_slot_val(slot));
             n < INLINED_MOST && debug_info != NULL; debug_info = caml_debuginfo_next(debug_info)) {
            names[at].frames[n++] = name_of(debug_info);
        }
        names[at].n_frames = n;
        names[at].slot = key;
    }
    const uint32_t n = names[at].n_frames < most ? names[at].n_frames : most;
    memcpy(frames, names[at].frames, n * sizeof(*frames));
    return n;
}

/* ---- blocks ---- */

value allogram_ocaml_alloc(value info, value is_major) {
    const value callstack = Field(info, 3);
    const intnat source = Long_val(Field(info, 2));
    const enum heap heap = source == SOURCE_MARSHAL ? HEAP_MARSHAL
                           : Bool_val(is_major)     ? HEAP_MAJOR
                                                    : HEAP_MINOR;
    struct allogram_frame frames[FRAMES_MOST];
    uint32_t n_frames = 0;
    if (source == SOURCE_CUSTOM || !(allogram_mode_ & ALLOGRAM_TELLS_)) {
        return Val_long(0); /* the memory is outside of the heap, or there is no session */
    }
    for (mlsize_t i = 0; i < Wosize_val(callstack) && n_frames < FRAMES_MOST; i++) {
        n_frames += frames_of(Field(callstack, i), frames + n_frames, FRAMES_MOST - n_frames);
    }
    const uint64_t number = next_number++;
    const struct allogram_block block = {.address = number * ADDRESS_STEP,
                                         .bytes = (size_t)Long_val(Field(info, 1)) * sizeof(value),
                                         .n_frames = n_frames,
                                         .frames = frames};
    report_blocks(heaps[heap], &block, 1);
    return Val_long((intnat)(number << HEAP_BITS | heap));
}

value allogram_ocaml_promote(value tracked) {
    const uint64_t content = (uint64_t)Long_val(tracked);
    allogram_promote(heaps[content & ((1 << HEAP_BITS) - 1)],
                     (content >> HEAP_BITS) * ADDRESS_STEP);
    return Val_unit;
}

value allogram_ocaml_dealloc(value tracked) {
    const uint64_t content = (uint64_t)Long_val(tracked);
    allogram_collect(heaps[content & ((1 << HEAP_BITS) - 1)],
                     (content >> HEAP_BITS) * ADDRESS_STEP);
    return Val_unit;
}

/* ---- sessions ---- */

static void register_heaps(void) {
    static const struct {
        const char *name;
        enum allogram_heap_kind kind;
    } rows[HEAPS] = {{"minor heap", ALLOGRAM_MOVING_COLLECTOR},
                     {"major heap", ALLOGRAM_NON_MOVING_COLLECTOR},
                     {"unmarshalled", ALLOGRAM_NON_MOVING_COLLECTOR}};
    for (size_t i = 0; i < HEAPS; i++) {
        const struct allogram_heap_options options = {.size = sizeof(options),
                                                      .name = rows[i].name,
                                                      .allocator = "ocaml",
                                                      .runtime = "ocaml",
                                                      .kind = rows[i].kind};
        heaps[i] = allogram_heap_new(&options);
    }
}

/* Starts a session. Returns "" if the session runs; "run" under `allogram run`, whose adapter
 * records OCaml; else the reason of the failure. */
value allogram_ocaml_start(value output, value depth, value frames_most) {
    char message[MESSAGE_BYTES] = "";
    const int frames = (int)Long_val(depth);
    const struct allogram_options options = {
        .size = sizeof(options),
        .output = String_val(output)[0] != '\0' ? String_val(output) : NULL,
        /* one more, for the frame "Gc.Memprof" of whole_stack.S */
        .depth = frames > 0 ? (uint32_t)frames + 1 : (uint32_t)Long_val(frames_most) + 1};
    const bool is_run =
        allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_ && allogram_trace()[0] == '\0';
    if (is_run) {
        return caml_copy_string("run");
    }
    register_heaps();
    const int r = allogram_start(&options, message, sizeof(message));
    const struct allogram_runtime_options runtime = {
        .size = sizeof(runtime),
        .name = "ocaml",
        .version = OCAML_VERSION_STRING,
        .note = "recorded by its own library; memory of malloc is not recorded",
        .is_hooked = 1};
    if (r == 0) {
        allogram_runtime(&runtime);
    } else if (message[0] == '\0') {
        (void)strcpy(message, "no session can be started");
    }
    return caml_copy_string(r == 0 ? "" : message);
}

value allogram_ocaml_stop(value unit) {
    (void)allogram_stop();
    return unit;
}

value allogram_ocaml_trace(value unit) {
    (void)unit;
    return caml_copy_string(allogram_trace());
}

value allogram_ocaml_snapshot(value output) {
    char message[MESSAGE_BYTES] = "";
    const struct allogram_snapshot_options options = {.size = sizeof(options),
                                                      .output = String_val(output)};
    const int r = allogram_snapshot(&options, message, sizeof(message));
    return caml_copy_string(r == 0 ? "" : message[0] != '\0' ? message : "there is no session");
}

value allogram_ocaml_reset(value unit) {
    (void)allogram_reset();
    return unit;
}

value allogram_ocaml_pause(value unit) {
    allogram_pause();
    return unit;
}

value allogram_ocaml_resume(value unit) {
    allogram_resume();
    return unit;
}

value allogram_ocaml_mark(value name) {
    allogram_mark(String_val(name));
    return Val_unit;
}

value allogram_ocaml_label(value name) {
    return Val_long(allogram_label_new(String_val(name)));
}

value allogram_ocaml_set_label(value label) {
    return Val_long(allogram_label_set((allogram_label)Long_val(label)));
}
