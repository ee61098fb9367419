/* alloc_tokens.c: an allocator to which a compiler passes the type of every allocation.
 *
 *     cc -g alloc_tokens.c $(pkg-config --cflags --libs allogram) -o alloc_tokens
 *     ./alloc_tokens                         writes a trace and prints its path
 *     allogram report --view=types TRACE     what each token allocated
 *
 * clang 22 and later rewrite calls of malloc, calloc, operator new and so on under
 * -fsanitize=alloc-token: malloc(n) becomes __alloc_token_malloc(n, token), where the token is a
 * number for the allocated type (by default a hash of the type's name, below the N of
 * -falloc-token-max=N), or 0 if the compiler does not know the type. Calls of free are not changed.
 * (https://clang.llvm.org/docs/AllocToken.html.) The program provides the functions
 * __alloc_token_malloc and so on, and reports each token to allogram as a type. The compiler does
 * not pass the name of a type, but the program can get the token of a type with
 * __builtin_infer_alloc_token and name it. Tokens without a name are shown as numbers.
 *
 * In this example the calls are written by hand as such a compiler generates them, so that any
 * compiler can build the example. With clang 22 the generated calls use the same functions.
 *
 * The program allocates 10 nodes of 32 bytes and 5 nodes of 64 bytes with token 7 ("struct node"),
 * and frees 4 of the nodes of 32 bytes. It also allocates 3 texts of 100 bytes with token 9, which
 * has no name, and 2 blocks of 8 bytes without a token. The tests compare these numbers with the
 * report. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <allogram/allogram.h>

/* ---- the allocator ---- */

enum { TOKENS = 1024 /* the N of -falloc-token-max=N */ };

static allogram_heap heap;
static allogram_type types[TOKENS];

void *__alloc_token_malloc(size_t bytes, size_t token);
void *__alloc_token_calloc(size_t count, size_t bytes, size_t token);
void *__alloc_token_realloc(void *block, size_t bytes, size_t token);

static allogram_type type_of(size_t token) {
    char name[32];
    if (token == 0 || token >= TOKENS) {
        return 0; /* the type is not known */
    }
    if (types[token] == 0) { /* if two threads do this at once, they get the same type */
        (void)snprintf(name, sizeof(name), "token %zu", token);
        types[token] = allogram_type_new(name, NULL);
    }
    return types[token];
}

static void name_token(size_t token, const char *type) {
    types[token] = allogram_type_new(type, NULL);
}

/* A real allocator would use the token to choose the memory, for example to keep types that contain
 * pointers apart from text. */
void *__alloc_token_malloc(size_t bytes, size_t token) {
    void *block = malloc(bytes);
    if (block) {
        allogram_alloc(heap, (uintptr_t)block, bytes, type_of(token));
    }
    return block;
}

void *__alloc_token_calloc(size_t count, size_t bytes, size_t token) {
    void *block = calloc(count, bytes); /* checks the product for overflow */
    if (block) {
        allogram_alloc(heap, (uintptr_t)block, count * bytes, type_of(token));
    }
    return block;
}

void *__alloc_token_realloc(void *block, size_t bytes, size_t token) {
    /* the address as a number, because the block may be freed below */
    const volatile uint64_t before = (uintptr_t)block;
    void *moved = realloc(block, bytes);
    if (moved && before != 0) {
        allogram_realloc(heap, before, (uintptr_t)moved, bytes, type_of(token));
    } else if (moved) {
        allogram_alloc(heap, (uintptr_t)moved, bytes, type_of(token));
    }
    return moved;
}

/* A real allocator would report the free in its own function free. */
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
