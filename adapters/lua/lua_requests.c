/* lua_requests.c: finds the types of new blocks in Lua 5.1, which passes no type to its allocator.
 *
 * 1. Lua's allocator is called by luaM_realloc_, for all of Lua, and by lua_newstate, for the first
 * block. Each kind of object is requested by one function of Lua (luaH_new, newlstr ...), and that
 * function calls luaM_realloc_ at one place. So the return address in the caller of luaM_realloc_
 * identifies the type:
 *
 *     ag_lua_allocate
 *     luaM_realloc_      <- `inner`: returns here from the allocator
 *     luaH_new           <- `outer`: returns here from luaM_realloc_; a table
 *
 * If luaM_realloc_ was inlined, the inner return address already identifies the type.
 *
 * 2. The return addresses are learned and not assumed. While the calibration runs a script that
 * makes objects of all types, each request is noted with the address of its block. Afterwards Lua's
 * lists of objects say which blocks are objects and of which type; all other blocks are vectors. If
 * an inner return address led to two types, the outer one decides; if an outer one then led to two
 * types, the calibration fails. A return address that did not occur stands for a vector. (In 5.1.5
 * this is the one for the upvalues of a function that was loaded from bytecode.) */
#include "lua_requests.h"

#include <stdatomic.h>

#include "base/pages.h"
#include "record/recorder.h"
#include "unwind/unwind_space.h"

enum {
    RBP = 6,
    RSP = 7,
    NOTES_MOST = 4096,
    SITES_MOST = 64,
    ASKS_OUTER = 0xff, /* in place of a tag: the outer return address decides */
};
struct site {
    uintptr_t pc;
    uint32_t tag;
};
static struct site inner[SITES_MOST], outer[SITES_MOST];
static uint32_t n_inner, n_outer;

struct noted_request {
    const void *block;
    uintptr_t inner, outer;
};
static struct { /* used during the calibration only */
    struct noted_request *requests;
    uint32_t n;
    bool is_full;
} noted;

/* ---- return addresses ---- */

/* Where a function that calls the allocator has its own return address: at this distance from rsp
 * or rbp. */
struct frame_rule {
    _Atomic uintptr_t pc; /* 0: free */
    int32_t offset;
    bool is_from_rbp, is_known;
};
enum { RULES = 8 };

static struct frame_rule find_rule(uintptr_t pc) {
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    struct frame_rule rule = {.is_known = false};
    if (ag_unwind_space_find_row(ag_recorder.space, pc, RBP, &row, &entry, NULL) == 0 &&
        row.cfa.kind == AG_CFI_IN_REGISTER && (row.cfa.reg == RSP || row.cfa.reg == RBP) &&
        row.return_address.kind == AG_CFI_AT_CFA) {
        rule.offset = (int32_t)(row.cfa.offset + row.return_address.offset);
        rule.is_from_rbp = row.cfa.reg == RBP;
        rule.is_known = true;
    }
    return rule;
}

/* The return address in the caller of the function that calls the allocator; 0: unknown. */
static uintptr_t outer_pc(const uintptr_t *sp, uintptr_t rbp) {
    static struct frame_rule rules[RULES]; /* an entry is written once, and then only read */
    static _Atomic uint32_t n_rules;
    const uintptr_t pc = sp[0];
    struct frame_rule rule = {.is_known = false};
    bool is_found = false;
    for (uint32_t i = 0; i < RULES && !is_found; i++) {
        is_found = atomic_load_explicit(&rules[i].pc, memory_order_acquire) == pc;
        if (is_found) {
            rule.offset = rules[i].offset;
            rule.is_from_rbp = rules[i].is_from_rbp;
            rule.is_known = rules[i].is_known;
        }
    }
    if (AG_UNLIKELY(!is_found)) {
        rule = find_rule(pc);
        const uint32_t at = atomic_fetch_add_explicit(&n_rules, 1, memory_order_relaxed);
        if (at < RULES) {
            rules[at].offset = rule.offset;
            rules[at].is_from_rbp = rule.is_from_rbp;
            rules[at].is_known = rule.is_known;
            atomic_store_explicit(&rules[at].pc, pc, memory_order_release);
        }
    }
    if (!rule.is_known) {
        return 0;
    }
    /* the callee's return address is popped: rsp in the caller is sp + 1 */
    const uintptr_t base = rule.is_from_rbp ? rbp : (uintptr_t)(sp + 1);
    return *(const uintptr_t *)(base + (uintptr_t)(intptr_t)rule.offset);
}

static const struct site *site_of(const struct site *sites, uint32_t n, uintptr_t pc) {
    for (uint32_t i = 0; i < n; i++) {
        if (sites[i].pc == pc) {
            return &sites[i];
        }
    }
    return NULL;
}

size_t ag_lua_requests_tag(const uintptr_t *sp, uintptr_t rbp) {
    const struct site *site = site_of(inner, n_inner, sp[0]);
    if (site && site->tag == ASKS_OUTER) {
        site = site_of(outer, n_outer, outer_pc(sp, rbp));
    }
    return site ? site->tag : 0;
}

/* ---- the calibration ---- */

void ag_lua_requests_note(const void *block, const uintptr_t *sp, uintptr_t rbp) {
    if (!noted.requests) {
        noted.requests = ag_pages_map(NOTES_MOST * sizeof(*noted.requests));
    }
    if (!noted.requests || noted.n == NOTES_MOST) {
        noted.is_full = true;
        return;
    }
    noted.requests[noted.n++] =
        (struct noted_request){.block = block, .inner = sp[0], .outer = outer_pc(sp, rbp)};
}

/* The type of the object at this address; 0: no object is there. */
static uint32_t tag_of_block(const lua_State *L, const void *block) {
    enum { NEXT = 0, TAG = 8 }; /* in GCObject */
    const struct ag_lua_layout *layout = &ag_lua.layout;
    const char *global = ag_lua_pointer(L, layout->state_global);
    const void *const *strings = ag_lua_pointer(global, layout->global_strings);
    const int n_strings = ag_lua_int(global, (uint16_t)(layout->global_strings + 12));
    const void *object = ag_lua_pointer(global, layout->global_objects);
    for (int i = 0; i <= n_strings; i++) {
        for (; object && object != block; object = ag_lua_pointer(object, NEXT)) {
        }
        if (object) {
            return ag_lua_byte(object, TAG);
        }
        object = i < n_strings ? strings[i] : NULL;
    }
    return 0;
}

/* Returns false if the site had another tag, or if there are too many sites. */
static bool learn_site(struct site *sites, uint32_t *n, uintptr_t pc, uint32_t tag) {
    const struct site *site = site_of(sites, *n, pc);
    if (!site && *n < SITES_MOST) {
        sites[(*n)++] = (struct site){.pc = pc, .tag = tag};
        return true;
    }
    return site && site->tag == tag;
}

bool ag_lua_requests_learn(const lua_State *L) {
    bool is_learned = noted.requests && !noted.is_full;
    uint32_t seen = 0;
    n_inner = n_outer = 0;
    for (uint32_t i = 0; i < noted.n && is_learned; i++) {
        const struct noted_request *request = &noted.requests[i];
        const uint32_t tag = tag_of_block(L, request->block);
        seen |= UINT32_C(1) << (tag & 31);
        if (!learn_site(inner, &n_inner, request->inner, tag)) {
            for (uint32_t k = 0; k < n_inner; k++) {
                inner[k].tag = inner[k].pc == request->inner ? ASKS_OUTER : inner[k].tag;
            }
        }
    }
    for (uint32_t i = 0; i < noted.n && is_learned; i++) {
        const struct noted_request *request = &noted.requests[i];
        const struct site *site = site_of(inner, n_inner, request->inner);
        is_learned =
            site && (site->tag != ASKS_OUTER ||
                     learn_site(outer, &n_outer, request->outer, tag_of_block(L, request->block)));
    }
    const uint32_t wanted = UINT32_C(1) << AG_LUA_TAG_STRING | UINT32_C(1) << AG_LUA_TAG_TABLE |
                            UINT32_C(1) << AG_LUA_TAG_FUNCTION |
                            UINT32_C(1) << AG_LUA_TAG_USERDATA | UINT32_C(1) << AG_LUA_TAG_THREAD |
                            UINT32_C(1) << ag_lua.layout.tag_proto |
                            UINT32_C(1) << ag_lua.layout.tag_upvalue;
    if (noted.requests) {
        ag_pages_unmap(noted.requests, NOTES_MOST * sizeof(*noted.requests));
    }
    noted.requests = NULL;
    noted.n = 0;
    return is_learned && (seen & wanted) == wanted;
}
