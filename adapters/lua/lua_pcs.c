/* lua_pcs.c: finds the pc of a running Lua function (the address of its next bytecode instruction)
 * where Lua has not saved it. lua_stacks.c needs the pc for the line of a frame.
 *
 * Without this file `local t = {}` would be recorded with the line of an earlier statement.
 * luaV_execute, the interpreter, has its pc in a variable and saves it in the call
 * (ci->u.l.savedpc) before an instruction that can raise an error or call. Two instructions
 * allocate without saving the pc: OP_NEWTABLE (luaH_new, luaH_resize) and OP_SETLIST
 * (luaH_resizearray); in 5.1 also OP_CLOSURE. The source of this is upstream's lvm.c at the tags of
 * the releases in lua_releases.def. Lua 5.2 and 5.3 advance the pc in the call itself, so for them
 * this file does nothing (keeps_pc_in_variable in struct ag_lua_layout).
 *
 * 1. The place of the variable. The compiler may have put the variable into a callee-saved register
 * or into a word of the frame. The place may differ from site to site (a site is a return address
 * in luaV_execute). So the place is found by experiment: lua_calibration.c runs constructors of
 * tables (and closures) and knows the instruction that allocates each of their blocks. If a place
 * holds the end address of that instruction each time a site is reached, it is the variable. If its
 * value always has the same distance from that address, the place is a copy of the variable.
 *
 * 2. The value of a register in an outer frame. A function that was called in between may have
 * pushed the register; .eh_frame says where. If several functions pushed it, the one next to
 * luaV_execute pushed the value of luaV_execute. If none did, the register still had that value
 * when the adapter's allocator was entered:
 *
 *     luaV_execute     pc in r13
 *     luaH_new         pushes rbx, r12
 *     luaC_newobj      pushes r13        <- the value is here
 *     luaM_malloc_     uses r13
 *     ag_lua_allocate  notes all callee-saved registers, in thread-local memory: it has no frame on
 *                      the stack (lua_entry.S)
 *
 * 3. The use of a value. All words that are read lie in frames that the walker has walked. A value
 * is used only if it points into the code of the function that the call runs, after an instruction
 * that allocates without saving the pc. Otherwise the saved pc is used. There are three such cases:
 * the constructors did not reach the site; a signal handler interrupted a function between
 * luaV_execute and the allocator, so the kernel stored the registers; or an allocator of the
 * program ran another Lua state before it returned this block. */
#include "lua_pcs.h"

#include <stdatomic.h>

#include "lua_runtime.h"
#include "record/recorder.h"
#include "unwind/unwind_space.h"

enum { REGISTERS = 6, WORD_BYTES = 8 };
/* DWARF register numbers, in the order in which lua_entry.S stores them, lowest first. */
static const uint8_t registers[REGISTERS] = {/* rbx */ 3, /* rbp */ 6, 12, 13, 14, 15};

enum {
    SITES_MOST = 16, /* Lua has three sites, and more if the compiler duplicated code */
    PLACES_MOST = 32,
    FRAME_WORDS_MOST = 1024, /* unoptimized code has some hundreds */
    AHEAD_LEAST = -2,        /* distance of a copy from the variable, in instructions */
    AHEAD_MOST = 2,
    TRIED_LEAST = 2, /* a site that the constructors reached less often is not used */
};
struct place {
    int16_t at;    /* less than REGISTERS: an index in `registers`; otherwise REGISTERS plus the
                    * index of a word of the frame, counted from the lowest address */
    int16_t ahead; /* the value minus the end of the running instruction, in instructions */
};
static struct site {
    uintptr_t pc; /* the return address in luaV_execute */
    uint32_t n_tried, n_places;
    struct place places[PLACES_MOST]; /* after ag_lua_pcs_settle only the first is used */
} sites[SITES_MOST];
static uint32_t n_sites;
static bool
    has_missed; /* there were more than SITES_MOST sites, or ag_lua_pcs_settle dropped a site */

/* The registers that lua_entry.S notes when the adapter's allocator is called. A nested call (an
 * allocator of the program, or a signal handler, runs Lua) overwrites them. */
extern __thread struct ag_lua_entered_with {
    uintptr_t sp; /* where the return address lies; 0: the allocator was never called */
    uintptr_t registers[REGISTERS];
} ag_lua_entered_with AG_HIDDEN __attribute__((tls_model("initial-exec")));
__thread struct ag_lua_entered_with ag_lua_entered_with;

/* ---- registers ---- */

/* Where the function with the return address pc has pushed a register. SAVE_SAME: nowhere.
 * SAVE_UNKNOWN: unknown. Any other number: that number of words below the address where the
 * function's frame ends (its CFA). */
enum { SAVE_SAME = 0, SAVE_UNKNOWN = 255, SAVE_BITS = 8, KEY_BITS = SAVE_BITS + 3, RULES = 256 };
static _Atomic uint64_t rules[RULES]; /* pc << KEY_BITS | register << SAVE_BITS | save */

static uint32_t find_save(uintptr_t pc, uint32_t index) {
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    if (ag_unwind_space_find_row(ag_recorder.space, pc, registers[index], &row, &entry, NULL) < 0 ||
        entry.is_signal_frame) {
        return SAVE_UNKNOWN;
    }
    if (row.wanted.kind == AG_CFI_SAME) {
        return SAVE_SAME;
    }
    const int64_t words = -row.wanted.offset / WORD_BYTES;
    const bool is_known = row.wanted.kind == AG_CFI_AT_CFA && row.wanted.offset % WORD_BYTES == 0 &&
                          words > SAVE_SAME && words < SAVE_UNKNOWN;
    return is_known ? (uint32_t)words : SAVE_UNKNOWN;
}

static uint32_t save_of(uintptr_t pc, uint32_t index) {
    const uint64_t key = (uint64_t)pc << KEY_BITS | index << SAVE_BITS;
    _Atomic uint64_t *place = &rules[key * UINT64_C(0x9e3779b97f4a7c15) >> 56];
    const uint64_t word = atomic_load_explicit(place, memory_order_relaxed);
    if (AG_LIKELY(word - key <= SAVE_UNKNOWN)) {
        return (uint32_t)(word - key);
    }
    const uint32_t save = find_save(pc, index);
    atomic_store_explicit(place, key | save, memory_order_relaxed);
    return save;
}

void ag_lua_pcs_forget_rules(void) {
    for (uint32_t i = 0; i < RULES; i++) {
        atomic_store_explicit(&rules[i], 0, memory_order_relaxed);
    }
}

static bool read_register(const struct ag_walked_frame *natives, uint32_t frame, uint32_t index,
                          uintptr_t *ret_value) {
    for (uint32_t i = frame; i-- > 0;) {
        const uint32_t save = save_of(natives[i].pc, index);
        if (save != SAVE_SAME) {
            const uintptr_t address = natives[i + 1].sp - (uintptr_t)save * WORD_BYTES;
            if (save == SAVE_UNKNOWN || address < natives[i].sp) {
                return false;
            }
            *ret_value = *(const uintptr_t *)address;
            return true;
        }
    }
    const uintptr_t return_address = natives[0].sp - WORD_BYTES;
    *ret_value = ag_lua_entered_with.registers[index];
    return ag_lua_entered_with.sp == return_address;
}

/* ---- places ---- */

static uint32_t words_of(const struct ag_walked_frame *natives, uint32_t frame) {
    const uintptr_t words = (natives[frame + 1].sp - natives[frame].sp) / WORD_BYTES;
    return words < FRAME_WORDS_MOST ? (uint32_t)words : FRAME_WORDS_MOST;
}

static bool read_place(const struct ag_walked_frame *natives, uint32_t frame, int at,
                       uintptr_t *ret_value) {
    if (at < REGISTERS) {
        return read_register(natives, frame, (uint32_t)at, ret_value);
    }
    const uint32_t word = (uint32_t)at - REGISTERS;
    if (word >= words_of(natives, frame)) {
        return false;
    }
    *ret_value = ((const uintptr_t *)natives[frame].sp)[word];
    return true;
}

static struct site *site_at(uintptr_t pc) {
    for (uint32_t i = 0; i < n_sites; i++) {
        if (sites[i].pc == pc) {
            return &sites[i];
        }
    }
    return NULL;
}

uintptr_t ag_lua_end_at(const struct ag_walked_frame *natives, uint32_t frame) {
    const struct site *site = site_at(natives[frame].pc);
    uintptr_t value;
    if (!site || !read_place(natives, frame, site->places[0].at, &value)) {
        return 0;
    }
    return value - (uintptr_t)site->places[0].ahead * sizeof(uint32_t);
}

/* ---- the calibration ---- */

static void try_all(struct site *site, const struct ag_walked_frame *natives, uint32_t frame,
                    const uint32_t *end) {
    const int n = REGISTERS + (int)words_of(natives, frame);
    const uintptr_t low = (uintptr_t)(end + AHEAD_LEAST);
    for (int at = 0; at < n && site->n_places < PLACES_MOST; at++) {
        uintptr_t value;
        if (read_place(natives, frame, at, &value) && value >= low &&
            value <= (uintptr_t)(end + AHEAD_MOST) && (value - low) % sizeof(*end) == 0) {
            const int ahead = (int)((value - low) / sizeof(*end)) + AHEAD_LEAST;
            site->places[site->n_places++] =
                (struct place){.at = (int16_t)at, .ahead = (int16_t)ahead};
        }
    }
}

static void try_again(struct site *site, const struct ag_walked_frame *natives, uint32_t frame,
                      const uint32_t *end) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < site->n_places; i++) {
        const struct place place = site->places[i];
        uintptr_t value;
        if (read_place(natives, frame, place.at, &value) &&
            value == (uintptr_t)(end + place.ahead)) {
            site->places[n++] = place;
        }
    }
    site->n_places = n;
}

void ag_lua_pcs_learn(const struct ag_walked_frame *natives, uint32_t frame,
                      const uint32_t *instruction) {
    const uint32_t *end = ag_lua_end_of(instruction);
    struct site *site = site_at(natives[frame].pc);
    if (site) {
        try_again(site, natives, frame, end);
    } else if (n_sites < SITES_MOST) {
        site = &sites[n_sites++];
        *site = (struct site){.pc = natives[frame].pc};
        try_all(site, natives, frame, end);
    } else {
        has_missed = true;
        return;
    }
    site->n_tried++;
}

bool ag_lua_pcs_settle(void) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_sites; i++) {
        if (sites[i].n_places > 0 && sites[i].n_tried >= TRIED_LEAST) {
            sites[n++] = sites[i];
        } else {
            has_missed = true;
        }
    }
    n_sites = n;
    return n > 0 && !has_missed;
}
