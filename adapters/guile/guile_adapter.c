/* guile_adapter.c: finds Guile 3.0 in the profiled process, and adds Scheme procedures to the
 * stacks of its blocks. The blocks are in the heap of the Boehm collector, whose adapter records
 * them, and calls this adapter at each event (bdwgc/object_reader.h). */
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "base/join_text.h"
#include "bdwgc/object_reader.h"
#include "embed/adapter.h"
#include "guile_code.h"
#include "guile_jit.h"
#include "guile_runtime.h"
#include "guile_stacks.h"
#include "hook/loaded_objects.h"
#include "hook/next_symbol.h"

extern const struct ag_adapter ag_adapter_guile;

struct ag_guile ag_guile;

static void ignore_uncleared(uintptr_t address, size_t bytes) {
    (void)address;
    (void)bytes;
}
static void ignore_block(uintptr_t address) {
    (void)address;
}
static void ignore(void) {
}

static const struct ag_object_reader reader = {.uncleared = ignore_uncleared,
                                               .allocated = ignore_block,
                                               .returned = ag_guile_stacks_begin_thread,
                                               .freeing = ignore_block,
                                               .collecting = ignore};

static char version[16];

/* Finds the text of the version, such as "3.0.8", among the library's constants: no other constant
 * has this form. */
static void find_version(const char *low, const char *high) {
    for (const char *at = low + 1; at + sizeof(version) < high; at++) {
        size_t n = 4;
        if (at[-1] != '\0' || memcmp(at, "3.0.", n) != 0) {
            continue;
        }
        while (n < sizeof(version) - 1 && at[n] >= '0' && at[n] <= '9') {
            n++;
        }
        if (n > 4 && at[n] == '\0') {
            memcpy(version, at, n);
        }
    }
}

/* Reads the segments of libguile, and the version from its constants. CONTEXT: receives the address
 * of the only thread-local variable of the library, Guile's pointer to the thread. */
static int read_library(struct dl_phdr_info *info, size_t size, void *context) {
    uintptr_t *ret_variable = context;
    if (!ag_object_contains(info, ag_guile.call_low)) {
        return 0;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t low = info->dlpi_addr + header->p_vaddr, high = low + header->p_memsz;
        if (header->p_type == PT_TLS && header->p_memsz == sizeof(uintptr_t) &&
            size > offsetof(struct dl_phdr_info, dlpi_tls_data)) {
            *ret_variable = (uintptr_t)info->dlpi_tls_data;
        } else if (header->p_type == PT_LOAD) {
            ag_guile.low = ag_guile.low == 0 || low < ag_guile.low ? low : ag_guile.low;
            ag_guile.high = high > ag_guile.high ? high : ag_guile.high;
            if (header->p_flags == PF_R) {
                // NOLINTNEXTLINE(performance-no-int-to-ptr): the library's constants
                find_version((const char *)low, (const char *)high);
            }
        }
    }
    return 1;
}

static enum ag_adapter_answer attach(struct ag_runtime_definition *ret_runtime) {
    struct ag_symbol_place call;
    if (!ag_symbol_find("scm_call_n", AG_SYMBOL_FIRST, NULL, &call)) {
        return AG_ADAPTER_ABSENT;
    }
    ret_runtime->version = version;
    ag_guile.call_low = (uintptr_t)call.address;
    ag_guile.call_high = ag_guile.call_low + call.bytes;
    if (call.bytes == 0 || !strstr(call.image_name, "libguile-3.0.so")) {
        ret_runtime->note = "only libguile-3.0 as a shared library is supported";
        return AG_ADAPTER_REFUSED;
    }
    if (ag_bdwgc_heap == 0) {
        ret_runtime->note =
            "the adapter bdwgc, which records its blocks, is off (--adapters) or could not start";
        return AG_ADAPTER_REFUSED;
    }
    uintptr_t variable = 0;
    (void)ag_objects_visit(read_library, &variable);
    if (variable == 0 || version[0] == '\0') {
        ret_runtime->note = "its version, or its pointer to the current thread, was not found";
        return AG_ADAPTER_REFUSED;
    }
    struct ag_symbol_place initialized;
    if (ag_symbol_find("scm_initialized_p", AG_SYMBOL_FIRST_DATA, NULL, &initialized)) {
        ag_guile.is_initialized = initialized.address;
    }
    if (!ag_guile_code_start()) {
        ret_runtime->note = "out of memory";
        return AG_ADAPTER_REFUSED;
    }
    ag_guile_stacks_start(variable);
    ag_guile_jit_follow();
    ag_object_reader = &reader;
    return AG_ADAPTER_ACTS;
}

static void guile_end(struct ag_runtime_definition *ret_runtime) {
    if (ag_guile.disagreement) {
        static char note[200];
        const char *const parts[] = {"stacks lack Scheme procedures, because ",
                                     ag_guile.disagreement, NULL};
        ag_join_text(note, sizeof(note), parts);
        ret_runtime->note = note;
    }
}

const struct ag_adapter ag_adapter_guile = {.attach = attach, .end = guile_end};
