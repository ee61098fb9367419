/* fake_julia.c: looks like a release of Julia that allogram does not support. It exports
 * jl_ver_string, which returns the version in the environment variable FAKE_JULIA, and the names of
 * allocation functions of Julia without their implementation. Each of these allocation functions
 * prints that it was called; allogram must call none of them. */
#include <stdio.h>
#include <stdlib.h>

const char *jl_ver_string(void);
const char *jl_ver_string(void) {
    const char *version = getenv("FAKE_JULIA");
    return version ? version : "";
}

#define NAMED(name)                                 \
    void *name(void *a);                            \
    __attribute__((noinline)) void *name(void *a) { \
        printf(#name " was called\n");              \
        return a;                                   \
    }
NAMED(jl_gc_pool_alloc)
NAMED(jl_gc_big_alloc)
NAMED(jl_gc_counted_malloc)

int main(void) {
    void *block = malloc(100);
    free(block);
    printf("%s ended\n", jl_ver_string());
    return 3;
}
