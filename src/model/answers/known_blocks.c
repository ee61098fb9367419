/* known_blocks.c: finds the stacks whose blocks the C or C++ runtime keeps until the process ends
 * (known_blocks.h).
 *
 * The frames of a stack are compared with the names of an entry from the innermost frame outward,
 * only up to the first frame that is not in an image of the runtime. So a function of the program
 * with the same name does not match, and a block that the program allocates is never hidden. The
 * names of most entries are not in the dynamic symbol table of the C library, so they are known
 * only if its debug symbols are installed. */
#include "model/answers/known_blocks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "model/profile_state.h"

static const struct ag_known_blocks known[] = {
#define AG_KNOWN(name, functions, reason) {name, functions, reason},
#include "model/answers/known_blocks.def"
#undef AG_KNOWN
};

const struct ag_known_blocks *ag_known_blocks(size_t *ret_count) {
    *ret_count = AG_ARRAY_SIZE(known);
    return known;
}

static bool begins_with(const char *text, const char *beginning) {
    return text && strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool is_of_runtime(const struct ag_frame *frame) {
    static const char *const images[] = {"libc.so", "libc-2", "ld-linux", "ld-2", "libstdc++.so"};
    for (size_t i = 0; i < AG_ARRAY_SIZE(images); i++) {
        if (begins_with(frame->image, images[i])) {
            return true;
        }
    }
    return false;
}

/* Whether NAME is one of the words of LIST. */
static bool is_listed(const char *list, const char *name) {
    const size_t length = name ? strlen(name) : 0;
    for (const char *at = list; length > 0 && (at = strstr(at, name)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* NODE: the innermost node of a stack. The frames are read from the nodes, because
 * ag_profile_stack_frames would keep the list of frames, which a later folding changes. */
static bool is_match(struct ag_profile *profile, const struct ag_known_blocks *entry,
                     uint32_t node) {
    const struct ag_stack_node *nodes = profile->definitions.nodes.nodes;
    const struct ag_frame *innermost = NULL;
    for (; !AG_IS_ROOT(node); node = nodes[node].parent) {
        size_t n;
        const uint32_t *frames = ag_profile_node_frames(profile, node, &n);
        for (size_t i = 0; i < n; i++) {
            const struct ag_frame *frame = ag_profile_frame(profile, frames[i]);
            innermost = innermost ? innermost : frame;
            if (!is_of_runtime(frame)) {
                return false;
            }
            if (is_listed(entry->functions, frame->function)) {
                return true;
            }
        }
    }
    return strcmp(entry->functions, "*") == 0 && innermost &&
           begins_with(innermost->image, "libstdc++.so");
}

int ag_profile_find_known(struct ag_profile *profile) {
    if (profile->known_of_row) {
        return 0;
    }
    profile->known_of_row = calloc(profile->n_rows + 1, sizeof(*profile->known_of_row));
    int r = profile->known_of_row ? ag_profile_resolve(profile) : -ENOMEM;
    for (size_t row = 0; row < profile->n_rows && r == 0; row++) {
        if (profile->rows[row].metrics.in_use_blocks == 0 ||
            profile->rows[row].state != AG_STACK_COMPLETE) {
            continue; /* callers that are missing may be functions of the program */
        }
        for (size_t i = 0; i < AG_ARRAY_SIZE(known) && profile->known_of_row[row] == 0; i++) {
            profile->known_of_row[row] =
                is_match(profile, &known[i], profile->row_nodes[row]) ? (uint8_t)(i + 1) : 0;
        }
    }
    return r;
}

unsigned ag_profile_known(const struct ag_profile *profile, size_t row) {
    return profile->known_of_row ? profile->known_of_row[row] : 0;
}
