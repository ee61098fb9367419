/* own_lua.c: Lua linked into the program as a static library. Calls functions of Lua's API as if
 * the compiler had optimized callers and callees together: the program keeps values in all
 * registers that the called function does not change, and its stack is aligned to 8 bytes only.
 *
 * Prints for each function which registers it changed, and what a script computes. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(void *ud, void *block, size_t old_bytes, size_t bytes) {
    (void)ud;
    (void)old_bytes;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, bytes);
}

struct marks {
    uint64_t general[9]; /* rdi rsi rdx rcx r8 r9 r10 r11 rax */
    uint64_t vector[16][4];
};

/* Calls the function with the values of MARKS in the registers, those of its arguments included,
 * and stores the values of all registers after the call. */
uint64_t call_marked(uintptr_t function, const struct marks *marks, struct marks *ret_marks);
__asm__(".text\n.globl call_marked\n.type call_marked, @function\n"
        "call_marked:\n"
        "push %rbp\nmov %rsp, %rbp\npush %rbx\npush %r12\n"
        "mov %rdi, %rbx\nmov %rsi, %rax\nmov %rdx, %r12\n"
        "and $-16, %rsp\nsub $8, %rsp\n"
        ".set n, 0\n"
        ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "movups 72 + 32 * n(%rax), %xmm\\r\n.set n, n + 1\n.endr\n"
        "mov (%rax), %rdi\nmov 8(%rax), %rsi\nmov 16(%rax), %rdx\nmov 24(%rax), %rcx\n"
        "mov 32(%rax), %r8\nmov 40(%rax), %r9\nmov 48(%rax), %r10\nmov 56(%rax), %r11\n"
        "mov 64(%rax), %rax\n"
        "call *%rbx\n"
        "mov %rdi, (%r12)\nmov %rsi, 8(%r12)\nmov %rdx, 16(%r12)\nmov %rcx, 24(%r12)\n"
        "mov %r8, 32(%r12)\nmov %r9, 40(%r12)\nmov %r10, 48(%r12)\nmov %r11, 56(%r12)\n"
        "mov %rax, 64(%r12)\n"
        ".set n, 0\n"
        ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "movups %xmm\\r, 72 + 32 * n(%r12)\n.set n, n + 1\n.endr\n"
        "lea -16(%rbp), %rsp\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size call_marked, . - call_marked\n");

static uintptr_t call(const char *name, uintptr_t function, uintptr_t a, uintptr_t b, uintptr_t c) {
    struct marks before, after;
    memset(&before, 0x5a, sizeof(before));
    after = before;
    before.general[0] = a;
    before.general[1] = b;
    before.general[2] = c;
    (void)call_marked(function, &before, &after);
    printf("%s changes", name);
    for (size_t i = 0; i < 8; i++) {
        if (after.general[i] != before.general[i]) {
            printf(" %zu", i);
        }
    }
    for (size_t i = 0; i < 16; i++) {
        if (memcmp(after.vector[i], before.vector[i], 16) != 0) {
            printf(" xmm%zu", i);
        }
    }
    printf("\n");
    return (uintptr_t)after.general[8];
}

int main(void) {
    lua_State *L = lua_newstate(allocate, NULL);
    luaL_openlibs(L);
    void *ud = L;
    const uintptr_t found =
        call("lua_getallocf", (uintptr_t)lua_getallocf, (uintptr_t)L, (uintptr_t)&ud, 0);
    (void)call("lua_setallocf", (uintptr_t)lua_setallocf, (uintptr_t)L, found, (uintptr_t)ud);
    printf("%d\n", found == (uintptr_t)allocate && ud == NULL);
    if (luaL_dostring(L,
                      "local t = {}\n"
                      "local function fill(n) for i = 1, n do t[#t + 1] = {tostring(i)} end end\n"
                      "fill(3000)\n"
                      "table.sort(t, function(a, b) return a[1] < b[1] end)\n"
                      "collectgarbage()\n"
                      "local function deep(n) return n == 0 and 0 or 1 + deep(n - 1) end\n"
                      "print(#t, t[77][1], deep(20000))")) {
        printf("%s\n", lua_tostring(L, -1));
    }
    lua_close(L);
    return 0;
}
