/* callers.c: finds the function that called a traced function, for the tracer (tracer.c).
 *
 * 1. If only some functions are traced, no event says which function called them. The caller's
 * return address is on the stack of the process. It is a continuation pointer: its two low bits are
 * zero, as in no term. At the event of a call, the innermost continuation pointer that points into
 * an Erlang function is the return address of the caller. Frames of the tracing itself may be
 * further inside; they return to code of the emulator that is in no Erlang function.
 *
 * 2. Many emulators export their function erts_find_function_from_pc, which searches the tables of
 * the loaded code for an address, in some 50 ns. Only normal schedulers may read the tables without
 * a lock.
 *
 * 3. Other emulators (Debian's OTP 29) export only the functions of erl_nif.h. But in the code that
 * the JIT makes, each function is preceded by a description:
 *
 *     instruction or data   8 bytes
 *     breakpoint            8 bytes, an address or 0
 *     module, function      8 bytes each, atoms
 *     arity                 8 bytes, a number below 256
 *     code of the function
 *
 * The nearest description before an address is that of its function. The memory before the address
 * is copied by a system call, which does not fail with a signal if a part of it is not mapped. The
 * result is remembered for a second, because code may be unloaded and other code loaded at its
 * place.
 *
 * The tracer checks with calls whose caller is known that the result is right (check/0 in
 * allogram.erl). */
#include "callers.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/pages.h"
#include "base/raw_syscall.h"

enum { TAG_MASK = 3, WORDS_MOST = 16 };

bool ag_callers_are_known;

/* The layout of the emulator's ErtsCodeMFA, from OTP 25 to 29. */
struct code_mfa {
    ERL_NIF_TERM module, function;
    uint64_t arity;
};
typedef const struct code_mfa *find_function_fn(const void *address);
static find_function_fn *find_function;

void ag_callers_start(void) {
    find_function = (find_function_fn *)dlsym(RTLD_DEFAULT, "erts_find_function_from_pc");
}

/* ---- descriptions in the code ---- */

enum {
    PAGES = 16, /* a function's start is searched in the address's page and 16 pages before it */
    PAGE_WORDS = AG_PAGE_BYTES / 8,
    ATOM_MASK = 0x3f,
    ATOM = 0x0b,
    ATOM_BITS = 32, /* no atom has more */
    ADDRESS_BITS = 47,
    ARITY_MOST = 255,
    REMEMBERED = 1024,
};
static const uint64_t remember_ns = 1000 * 1000 * 1000;

static struct {
    pthread_mutex_t lock;
    uint64_t words[(PAGES + 1) * PAGE_WORDS];
} copied = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct remembered {
    uint64_t address;
    struct ag_mfa mfa;
    bool is_function;
};

/* Copies the page of ADDRESS, and the pages before it as far as they are mapped, to the end of
 * `copied`. Returns the number of copied pages. */
static size_t copy_before_locked(uint64_t address) {
    struct iovec to[PAGES + 1], from[PAGES + 1];
    for (size_t i = 0; i <= PAGES; i++) {
        to[i] = (struct iovec){&copied.words[(PAGES - i) * PAGE_WORDS], AG_PAGE_BYTES};
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in generated code
        from[i] = (struct iovec){(void *)(ag_page_of(address) - i * AG_PAGE_BYTES), AG_PAGE_BYTES};
    }
    const long n = ag_syscall6(SYS_process_vm_readv, ag_syscall1(SYS_getpid, 0), (long)to,
                               PAGES + 1, (long)from, PAGES + 1, 0);
    return ag_syscall_failed(n) ? 0 : (size_t)n / AG_PAGE_BYTES;
}

static bool is_atom(uint64_t word) {
    return (word & ATOM_MASK) == ATOM && word >> ATOM_BITS == 0;
}

static bool is_description(const uint64_t *words) {
    return words[0] % 8 == 0 && words[0] >> ADDRESS_BITS == 0 && is_atom(words[1]) &&
           is_atom(words[2]) && words[3] <= ARITY_MOST;
}

AG_COLD static bool search_before(uint64_t address, struct ag_mfa *ret_mfa) {
    enum { WORDS = 4 };
    bool is_found = false;
    (void)pthread_mutex_lock(&copied.lock); /* cannot fail: a mutex of this file, as below */
    const size_t n_pages = copy_before_locked(address);
    const size_t first = (PAGES + 1 - n_pages) * PAGE_WORDS;
    size_t at = PAGES * PAGE_WORDS + (address % AG_PAGE_BYTES) / 8;
    while (!is_found && n_pages > 0 && at >= first + WORDS) {
        const uint64_t *words = &copied.words[at - WORDS];
        is_found = is_description(words);
        *ret_mfa =
            (struct ag_mfa){.module = words[1], .function = words[2], .arity = (uint32_t)words[3]};
        at--;
    }
    (void)pthread_mutex_unlock(&copied.lock);
    return is_found;
}

static bool find_description(uint64_t address, struct ag_mfa *ret_mfa) {
    static _Thread_local struct remembered *remembered;
    static _Thread_local uint64_t since_ns;
    const uint64_t now_ns = ag_monotonic_ns();
    if (remembered == NULL) {
        remembered = ag_pages_map(REMEMBERED * sizeof(*remembered));
        if (remembered == NULL) {
            return false;
        }
    } else if (now_ns - since_ns > remember_ns) {
        for (size_t i = 0; i < REMEMBERED; i++) {
            remembered[i].address = 0;
        }
        since_ns = now_ns;
    }
    struct remembered *known = &remembered[(address * UINT64_C(0x9E3779B97F4A7C15)) >> 54];
    if (known->address != address) {
        known->is_function = search_before(address, &known->mfa);
        known->address = address;
    }
    *ret_mfa = known->mfa;
    return known->is_function;
}

/* ---- the caller ---- */

static bool find_at(uint64_t address, struct ag_mfa *ret_mfa) {
    if (find_function == NULL) {
        return find_description(address, ret_mfa);
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in generated code
    const struct code_mfa *mfa = find_function((const void *)address);
    if (mfa != NULL) {
        *ret_mfa = (struct ag_mfa){
            .module = mfa->module, .function = mfa->function, .arity = (uint32_t)mfa->arity};
    }
    return mfa != NULL;
}

/* minus 1 below, because the call may be the last instruction of the caller */
static bool is_return(uint64_t word, struct ag_mfa *ret_mfa) {
    return word != 0 && (word & TAG_MASK) == 0 && find_at(word - 1, ret_mfa);
}

uint32_t ag_callers_find_all(const struct ag_process_heap *heap, struct ag_caller *ret_callers,
                             uint32_t most) {
    uint32_t n = 0;
    struct ag_mfa mfa;
    if (enif_thread_type() != ERL_NIF_THR_NORMAL_SCHEDULER) {
        return 0;
    }
    for (const uint64_t *word = heap->stack; word < heap->end && n <= most; word++) {
        if (is_return(*word, &mfa)) {
            if (n < most) {
                ret_callers[n] =
                    (struct ag_caller){.mfa = mfa, .stack_words = (uint32_t)(heap->end - word)};
            }
            n++;
        }
    }
    return n;
}

bool ag_caller_find(const struct ag_process_heap *heap, struct ag_mfa *ret_mfa) {
    if (enif_thread_type() != ERL_NIF_THR_NORMAL_SCHEDULER) {
        return false;
    }
    const uint64_t *word = heap->stack;
    for (uint32_t i = 0; i < WORDS_MOST && word < heap->end; i++, word++) {
        if (is_return(*word, ret_mfa)) {
            return true;
        }
    }
    return false;
}
