/* own_code.c: decides by paths and names alone: the files of the machine that compiled are not
 * available.
 *
 * The images of the C library are recognized by their names: distributions build them below a
 * folder that they call ".", so their paths look like any program's. Headers of a compiler are
 * absolute, below /usr; Rust names a folder that exists on no machine. If no file is known, the
 * namespaces of the languages decide. */
#include "model/answers/own_code.h"

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "model/profile.h"

static bool begins_with_any(const char *text, const char *const *beginnings, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_file_of_system(const char *file) {
    static const char *const beginnings[] = {"/usr/", "/rustc/", "library/"};
    return begins_with_any(file, beginnings, AG_ARRAY_SIZE(beginnings));
}

static bool is_image_of_system(const char *image) {
    static const char *const beginnings[] = {"libc.so",     "libc-",      "ld-linux",  "ld-2.",
                                             "libm.so",     "libpthread", "libstdc++", "libgcc_s",
                                             "liballogram-"}; /* detours appear in stacks, too */
    return begins_with_any(image, beginnings, AG_ARRAY_SIZE(beginnings));
}

static bool is_function_of_system(const char *function) {
    static const char *const beginnings[] = {
        "std::",       "void std::",   "__gnu_cxx::", "void __gnu_cxx::", "operator new",
        "alloc::",     "core::",       "<alloc::",    "<core::",          "<std::",
        "hashbrown::", "<hashbrown::", "__rust_",     "__rdl_",           "__cxxabiv1::"};
    return begins_with_any(function, beginnings, AG_ARRAY_SIZE(beginnings));
}

enum ag_frame_owner ag_frame_owner(const struct ag_frame *frame) {
    const bool is_of_system = (frame->file && is_file_of_system(frame->file)) ||
                              (frame->image && is_image_of_system(frame->image)) ||
                              (frame->function && is_function_of_system(frame->function));
    return is_of_system ? AG_OWNER_SYSTEM : frame->file ? AG_OWNER_READER : AG_OWNER_UNKNOWN;
}
