/* alloc_tokens.c: an allocator to which a compiler passes the type of every allocation.
 *
 *     cc -g alloc_tokens.c $(pkg-config --cflags --libs allogram) -o alloc_tokens
 *     ./alloc_tokens                         writes a trace of its own and prints its name
 *     allogram report --view=types TRACE     what each token allocated
 *
 * clang 22 and later rewrite calls of malloc, calloc, operator new and so on under
 * -fsanitize=alloc-token: malloc(n) becomes __alloc_token_malloc(n, token), where the token is a
 * number of the allocated type (by default a hash of its name, -falloc-token-max=N bounds it); 0
 * if the compiler knows none. free is not changed. (https://clang.llvm.org/docs/AllocToken.html.)
 * The program provides these functions, which only have to report the token as a type to
 * allogram. The compiler gives no name; the program can ask for the token of a type
 * (__builtin_infer_alloc_token) and name it, and tokens without a name are shown as numbers.
 *
 * Here the calls are written by hand as such a compiler generates them, so that any compiler can
 * build the example; with clang 22 the same functions serve the generated calls.
 *
 * 10 nodes of 32 bytes and 5 of 64 with token 7 ("struct node"), of which 4 of 32 bytes are freed;
 * 3 texts of 100 bytes with token 9, which has no name; 2 blocks of 8 bytes without a token. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <allogram/allogram.h>

/* ---- the allocator ---- */

enum { TOKENS = 1024 /* as -falloc-token-max says */ };

static allogram_heap heap;
static allogram_type types[TOKENS];

void *__alloc_token_malloc(size_t bytes, size_t token);
void *__alloc_token_calloc(size_t count, size_t bytes, size_t token);
void *__alloc_token_realloc(void *block, size_t bytes, size_t token);

static allogram_type type_of(size_t token) {
    char name[32];
    if (token == 0 || token >= TOKENS) {
        return 0; /* not known */
    }
    if (types[token] == 0) { /* two threads at once get the same number */
        (void)snprintf(name, sizeof(name), "token %zu", token);
        types[token] = allogram_type_new(name, NULL);
    }
    return types[token];
}

static void name_token(size_t token, const char *type) {
    types[token] = allogram_type_new(type, NULL);
}

/* A real one would choose the place by the token: types that hold pointers apart from text. */
void *__alloc_token_malloc(size_t bytes, size_t token) {
    void *block = malloc(bytes);
    if (block) {
        allogram_alloc(heap, (uintptr_t)block, bytes, type_of(token));
    }
    return block;
}

void *__alloc_token_calloc(size_t count, size_t bytes, size_t token) {
    void *block = calloc(count, bytes); /* which knows when the product overflows */
    if (block) {
        allogram_alloc(heap, (uintptr_t)block, count * bytes, type_of(token));
    }
    return block;
}

void *__alloc_token_realloc(void *block, size_t bytes, size_t token) {
    const volatile uint64_t before = (uintptr_t)block; /* a number: the block itself may be gone */
    void *moved = realloc(block, bytes);
    if (moved && before != 0) {
        allogram_realloc(heap, before, (uintptr_t)moved, bytes, type_of(token));
    } else if (moved) {
        allogram_alloc(heap, (uintptr_t)moved, bytes, type_of(token));
    }
    return moved;
}

/* Of such an allocator this is free itself. */
static void give_back(void *block) {
    allogram_free(heap, (uintptr_t)block);
    free(block);
}

/* ---- the program, as the compiler has rewritten it ---- */

static void *volatile kept;

int main(void) {
    const struct allogram_heap_options options = {
        .size = sizeof(options), .name = "typed", .allocator = "tokens"};
    void *nodes[10];
    heap = allogram_heap_new(&options);
    name_token(7, "struct node"); /* __builtin_infer_alloc_token(sizeof(struct node)) */
    (void)allogram_start(NULL, NULL, 0);
    for (int i = 0; i < 10; i++) {
        nodes[i] = __alloc_token_malloc(32, 7);
    }
    for (int i = 0; i < 4; i++) {
        give_back(nodes[i]);
    }
    for (int i = 0; i < 5; i++) {
        kept = __alloc_token_calloc(2, 32, 7);
    }
    for (int i = 0; i < 3; i++) {
        kept = __alloc_token_realloc(NULL, 100, 9);
    }
    for (int i = 0; i < 2; i++) {
        kept = __alloc_token_malloc(8, 0);
    }
    (void)allogram_stop();
    printf("%s\n", allogram_trace());
    return 0;
}
