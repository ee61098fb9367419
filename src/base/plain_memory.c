/* plain_memory.c: the memory and string functions of the C library for the agents (libraries that
 * are loaded into the profiled process), written for general registers only.
 *
 * A detour replaces a function of the program. The compiler of the function's callers may know that
 * the function does not change the vector registers (see hook/kept_call.h), so the detour must not
 * change them either. The C library's memcpy and strlen use vector registers. So the agents link
 * the functions of this file instead, with hidden visibility, and the modules that the detour runs
 * are compiled with -mgeneral-regs-only. Then no vector register has to be saved.
 * tools/check_vectors.py checks the machine code.
 *
 * The functions need not be fast: they are not called in an allocation whose call stack the
 * unwinder has cached. */
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* The names and types of <string.h>. The header itself is not included, because it declares some of
 * the functions with attributes that these definitions do not match. */
void *memcpy(void *restrict to, const void *restrict from, size_t n_bytes) AG_HIDDEN;
void *memmove(void *to, const void *from, size_t n_bytes) AG_HIDDEN;
void *memset(void *to, int value, size_t n_bytes) AG_HIDDEN;
int memcmp(const void *left, const void *right, size_t n_bytes) AG_HIDDEN;
size_t strlen(const char *text) AG_HIDDEN;
size_t strnlen(const char *text, size_t most) AG_HIDDEN;
int strcmp(const char *left, const char *right) AG_HIDDEN;
int strncmp(const char *left, const char *right, size_t most) AG_HIDDEN;
char *strchr(const char *text, int wanted) AG_HIDDEN;
char *strrchr(const char *text, int wanted) AG_HIDDEN;
char *strstr(const char *text, const char *wanted) AG_HIDDEN;

/* Uses string instructions, because a compiler may replace a loop that copies bytes by a call of
 * memcpy. */
void *memcpy(void *restrict to, const void *restrict from, size_t n_bytes) {
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n_bytes) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t n_bytes) {
    if ((uintptr_t)to - (uintptr_t)from >= n_bytes) {
        return memcpy(to, from, n_bytes);
    }
    for (size_t i = n_bytes; i-- > 0;) {
        ((volatile unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    }
    return to;
}

void *memset(void *to, int value, size_t n_bytes) {
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n_bytes) : "a"(value) : "memory");
    return to;
}

int memcmp(const void *left, const void *right, size_t n_bytes) {
    const unsigned char *a = left, *b = right;
    for (size_t i = 0; i < n_bytes; i++) {
        if (a[i] != b[i]) {
            return a[i] - b[i];
        }
    }
    return 0;
}

size_t strnlen(const char *text, size_t most) {
    size_t n = 0;
    while (n < most && ((const volatile char *)text)[n] != '\0') {
        n++;
    }
    return n;
}

size_t strlen(const char *text) {
    return strnlen(text, SIZE_MAX);
}

int strncmp(const char *left, const char *right, size_t most) {
    for (size_t i = 0; i < most; i++) {
        const unsigned char a = (unsigned char)left[i], b = (unsigned char)right[i];
        if (a != b || a == '\0') {
            return a - b;
        }
    }
    return 0;
}

int strcmp(const char *left, const char *right) {
    return strncmp(left, right, SIZE_MAX);
}

char *strchr(const char *text, int wanted) {
    for (;; text++) {
        if (*text == (char)wanted) {
            return (char *)(uintptr_t)text;
        }
        if (*text == '\0') {
            return NULL;
        }
    }
}

char *strrchr(const char *text, int wanted) {
    const char *last = NULL;
    for (;; text++) {
        if (*text == (char)wanted) {
            last = text;
        }
        if (*text == '\0') {
            return (char *)(uintptr_t)last;
        }
    }
}

char *strstr(const char *text, const char *wanted) {
    const size_t n = strlen(wanted);
    for (; strncmp(text, wanted, n) != 0; text++) {
        if (*text == '\0') {
            return NULL;
        }
    }
    return (char *)(uintptr_t)text;
}
