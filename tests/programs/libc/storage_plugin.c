/* storage_plugin.c: a library with thread-local storage. Because it is loaded by dlopen, the C
 * library allocates the storage of each thread with malloc when the thread uses it first. */
enum { TLS_BYTES = 20000 };

static __thread char storage[TLS_BYTES];

void touch_storage(void) {
    for (int i = 0; i < TLS_BYTES; i++) {
        ((volatile char *)storage)[i] = 1;
    }
}
