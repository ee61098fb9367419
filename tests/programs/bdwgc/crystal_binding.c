/* crystal_binding.c: the C library of crystal_objects.cr: it allocates memory and calls back. */
#include <stdlib.h>

void *kept_and_called(int bytes, void (*callback)(int));
void *kept_and_called(int bytes, void (*callback)(int)) {
    void *kept = malloc((size_t)bytes);
    callback(bytes);
    return kept;
}
