/* changed_code.c: a program that writes a jump over the C library's malloc, as libraries for
 * hooking do. It reads lines from standard input, and answers each with the line:
 *
 *     allocate    allocates and frees 100 blocks of 1000 bytes
 *     change      writes the jump, to a function that calls memalign
 *     restore     writes the bytes back that were there before */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { JUMP_BYTES = 12, PAGE_BYTES = 4096 };

static void *hooked_malloc(size_t bytes) {
    return memalign(32, bytes);
}

static void write_code(unsigned char *code, const unsigned char bytes[JUMP_BYTES]) {
    unsigned char *page = code - (size_t)code % PAGE_BYTES;
    if (mprotect(page, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
        exit(2);
    }
    memcpy(code, bytes, JUMP_BYTES);
    mprotect(page, 2 * PAGE_BYTES, PROT_READ | PROT_EXEC);
}

int main(void) {
    unsigned char *code = dlsym(dlopen("libc.so.6", RTLD_NOLOAD | RTLD_NOW), "malloc");
    unsigned char before[JUMP_BYTES], jump[JUMP_BYTES] = {0x48, 0xb8}; /* movabs $hook, %rax */
    void *(*const hook)(size_t) = hooked_malloc;
    char line[64];
    memcpy(jump + 2, &hook, sizeof hook);
    memcpy(jump + 10, "\xff\xe0", 2); /* jmp *%rax */
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        for (int i = 0; i < 100 && strcmp(line, "allocate\n") == 0; i++) {
            void *volatile block = malloc(1000);
            free(block);
        }
        if (strcmp(line, "change\n") == 0) {
            memcpy(before, code, JUMP_BYTES);
            write_code(code, jump);
        } else if (strcmp(line, "restore\n") == 0) {
            write_code(code, before);
        }
        fputs(line, stdout);
    }
    return 0;
}
