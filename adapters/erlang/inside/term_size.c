/* term_size.c: finds the emulator's function that computes how many words of a term are copied, for
 * the tracer (tracer.c).
 *
 * 1. The function is size_object_x(term, purge area). With a purge area it leaves out the literals
 * of loaded modules, which are not copied, unless they are in that area. An empty area means that
 * no module is being purged. Emulators before OTP 29 export the function.
 *
 * 2. OTP 29 exports only the functions for native code. One of them is enif_term_size(term), which
 * returns the bytes of a term with its literals: size_object_x(term, NULL) * 8. It consists of one
 * call:
 *
 *     endbr64                may be missing
 *     sub    $8, %rsp        or push %rax
 *     xor    %esi, %esi      the second argument is NULL
 *     call   size_object_x
 *     add    $8, %rsp        may follow the next instruction; or pop %rcx
 *     shl    $3, %rax
 *     ret
 *
 * The target of the call is read from these instructions. If the code of the function differs in
 * any byte, for example because the compiler inlined size_object_x, nothing is called.
 *
 * 3. The found function is called with a literal and with a term of known size. */
#include "term_size.h"

#include <dlfcn.h>
#include <string.h>

#include "allogram/allogram.h"
#include "base/compiler.h"

struct purge_area {
    const void *start;
    uint64_t bytes;
};
typedef uint64_t size_of_term_fn(ERL_NIF_TERM term, struct purge_area *area);
static size_of_term_fn *size_of_term;

/* If the code at *AT is PART, advances *AT behind it. */
static bool skip_code(const uint8_t **at, const char *part, size_t bytes) {
    const bool is_same = memcmp(*at, part, bytes) == 0;
    *at += is_same ? bytes : 0;
    return is_same;
}
#define SKIP(at, part) skip_code(at, part, sizeof(part) - 1)

/* Returns the only function that enif_term_size calls; NULL: its code has another form. */
static size_of_term_fn *called_by(const uint8_t *at) {
    enum { RETURN = 0xc3 };
    int32_t distance;
    (void)SKIP(&at, "\xf3\x0f\x1e\xfa");
    const bool is_pushed = SKIP(&at, "\x50");
    if ((!is_pushed && !SKIP(&at, "\x48\x83\xec\x08")) || !SKIP(&at, "\x31\xf6\xe8")) {
        return NULL;
    }
    memcpy(&distance, at, sizeof distance);
    at += sizeof distance;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in the emulator's code
    size_of_term_fn *const called =
        (size_of_term_fn *)((uintptr_t)at + (uintptr_t)(intptr_t)distance);
    bool is_restored = false, is_shifted = false;
    for (int i = 0; i < 2; i++) {
        is_restored |= is_pushed ? SKIP(&at, "\x59") : SKIP(&at, "\x48\x83\xc4\x08");
        is_shifted |= SKIP(&at, "\x48\xc1\xe0\x03");
    }
    return is_restored && is_shifted && *at == RETURN ? called : NULL;
}

static uint64_t size_by(size_of_term_fn *function, ERL_NIF_TERM term) {
    struct purge_area none = {.start = NULL};
    return function(term, &none);
}

bool ag_term_size_start(ErlNifEnv *env, ERL_NIF_TERM literal) {
    enum { LIST_WORDS = 4 };
    const uint8_t *public_one = dlsym(RTLD_DEFAULT, "enif_term_size");
    size_of_term_fn *found = (size_of_term_fn *)dlsym(RTLD_DEFAULT, "size_object_x");
    if (found == NULL && public_one != NULL) {
        found = called_by(public_one);
    }
    const ERL_NIF_TERM list = enif_make_list2(env, enif_make_int(env, 1), literal);
    const bool is_right =
        found != NULL && size_by(found, literal) == 0 && size_by(found, list) == LIST_WORDS;
    size_of_term = is_right ? found : NULL;
    return is_right;
}

uint64_t ag_term_size(ERL_NIF_TERM term) {
    return AG_LIKELY(size_of_term != NULL) ? size_by(size_of_term, term) : ALLOGRAM_UNKNOWN_WORDS;
}
