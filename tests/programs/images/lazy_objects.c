/* lazy_objects.c: a library to preload that replaces dl_iterate_phdr. Its function does not work
 * before the library's constructor has run, and the constructor begins with an allocation.
 * ThreadSanitizer's library behaves like this. */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

typedef int visit_fn(struct dl_phdr_info *info, size_t bytes, void *context);
static int (*next)(visit_fn *visit, void *context);

int dl_iterate_phdr(visit_fn *visit, void *context) {
    return next(visit, context);
}

__attribute__((constructor)) static void find_next(void) {
    free(malloc(10));
    void *found = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    memcpy(&next, &found, sizeof(next));
}
