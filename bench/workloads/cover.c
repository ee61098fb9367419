/* cover.c: a benchmark program with many distinct stacks. It complements random sums of products by
 * Shannon expansion and proves the result by a tautology check, as espresso (a minimizer of logic
 * functions) does. Each level of the recursion is entered from one of several places, so that a
 * stack is a path of decisions: some hundred thousand distinct stacks, 10 to 30 frames deep, from
 * few call sites.
 *
 * A cube (a product) is one block, with two bits per variable (bit 0: may be 0, bit 1: may be 1).
 * A cover (a sum of cubes) is a block that grows.
 *
 * cover ROUNDS: processes this number of random functions. Prints sums that depend on all results,
 * then, on standard error, its own count of allocations and its resident memory. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resident.h"

enum { WORDS = 64 }; /* sets the work between allocations */
struct cube {
    uint64_t pairs[WORDS]; /* both bits are set for bit pairs above the last variable */
};
struct cover {
    size_t count, room;
    struct cube *cubes[];
};

static uint64_t n_allocated;
static int n_variables;

static struct cube *cube_new(const struct cube *from) {
    struct cube *cube = malloc(sizeof *cube);
    if (cube == NULL) {
        abort();
    }
    n_allocated++;
    if (from == NULL) {
        memset(cube->pairs, 0xff, sizeof cube->pairs);
    } else {
        *cube = *from;
    }
    return cube;
}

static struct cover *cover_new(size_t room) {
    struct cover *cover = malloc(sizeof *cover + room * sizeof cover->cubes[0]);
    if (cover == NULL) {
        abort();
    }
    n_allocated++;
    *cover = (struct cover){0, room};
    return cover;
}

static struct cover *cover_free(struct cover *cover) {
    for (size_t i = 0; i < cover->count; i++) {
        free(cover->cubes[i]);
    }
    free(cover);
    return NULL;
}

static struct cover *cover_add(struct cover *cover, struct cube *cube) {
    if (cover->count == cover->room) {
        cover->room = cover->room * 2 + 2;
        cover = realloc(cover, sizeof *cover + cover->room * sizeof cover->cubes[0]);
        if (cover == NULL) {
            abort();
        }
        n_allocated++;
    }
    cover->cubes[cover->count++] = cube;
    return cover;
}

static unsigned pair_of(const struct cube *cube, int variable) {
    return cube->pairs[variable / 32] >> variable % 32 * 2 & 3;
}

static void set_pair(struct cube *cube, int variable, unsigned pair) {
    uint64_t mask = UINT64_C(3) << variable % 32 * 2;
    cube->pairs[variable / 32] = (cube->pairs[variable / 32] & ~mask) | (uint64_t)pair
                                                                            << variable % 32 * 2;
}

static bool contains(const struct cube *outer, const struct cube *inner) {
    uint64_t outside = 0;
    for (int i = 0; i < WORDS; i++) {
        outside |= inner->pairs[i] & ~outer->pairs[i];
    }
    return outside == 0;
}

static bool is_full(const struct cube *cube) {
    uint64_t all = UINT64_MAX;
    for (int i = 0; i < WORDS; i++) {
        all &= cube->pairs[i];
    }
    return all == UINT64_MAX;
}

static struct cover *cofactor(const struct cover *cover, int variable, unsigned pair) {
    struct cover *result = cover_new(cover->count);
    for (size_t i = 0; i < cover->count; i++) {
        if (pair_of(cover->cubes[i], variable) & pair) {
            struct cube *cube = cube_new(cover->cubes[i]);
            set_pair(cube, variable, 3);
            result = cover_add(result, cube);
        }
    }
    return result;
}

/* The variable that occurs in most cubes, among those that occur in both phases (negated and not
 * negated); -1: each variable occurs in one phase at most. *RET_ANY: some variable occurs. */
static int most_binate(const struct cover *cover, bool *ret_any) {
    int best = -1, best_count = 0;
    *ret_any = false;
    for (int variable = 0; variable < n_variables; variable++) {
        int zeros = 0, ones = 0;
        for (size_t i = 0; i < cover->count; i++) {
            unsigned pair = pair_of(cover->cubes[i], variable);
            zeros += pair == 1;
            ones += pair == 2;
        }
        *ret_any |= zeros + ones > 0;
        if (zeros > 0 && ones > 0 && zeros + ones > best_count) {
            best = variable;
            best_count = zeros + ones;
        }
    }
    return best;
}

static int first_used(const struct cover *cover) {
    for (int variable = 0; variable < n_variables; variable++) {
        for (size_t i = 0; i < cover->count; i++) {
            if (pair_of(cover->cubes[i], variable) != 3) {
                return variable;
            }
        }
    }
    return -1;
}

static struct cover *without_contained(struct cover *cover) {
    struct cover *result = cover_new(cover->count);
    for (size_t i = 0; i < cover->count; i++) {
        bool kept = true;
        for (size_t k = 0; k < cover->count && kept; k++) {
            kept = i == k || !contains(cover->cubes[k], cover->cubes[i]) ||
                   (contains(cover->cubes[i], cover->cubes[k]) && i < k);
        }
        if (kept) {
            result = cover_add(result, cube_new(cover->cubes[i]));
        }
    }
    cover_free(cover);
    return result;
}

static struct cover *complement_of_cube(const struct cube *cube) {
    struct cover *result = cover_new(4);
    for (int variable = 0; variable < n_variables; variable++) {
        if (pair_of(cube, variable) != 3) {
            struct cube *part = cube_new(NULL);
            set_pair(part, variable, pair_of(cube, variable) ^ 3);
            result = cover_add(result, part);
        }
    }
    return result;
}

static struct cover *merged(struct cover *zero, struct cover *one, int variable) {
    struct cover *result = cover_new(zero->count + one->count);
    for (size_t i = 0; i < zero->count; i++) {
        bool both = false;
        for (size_t k = 0; k < one->count && !both; k++) {
            both = contains(one->cubes[k], zero->cubes[i]);
        }
        struct cube *cube = cube_new(zero->cubes[i]);
        set_pair(cube, variable, both ? 3 : 1);
        result = cover_add(result, cube);
    }
    for (size_t i = 0; i < one->count; i++) {
        struct cube *cube = cube_new(one->cubes[i]);
        set_pair(cube, variable, 2);
        result = cover_add(result, cube);
    }
    cover_free(zero);
    cover_free(one);
    return result;
}

__attribute__((noinline)) static struct cover *complement(const struct cover *cover);

__attribute__((noinline)) static struct cover *complement_half(const struct cover *cover,
                                                               int variable, unsigned pair) {
    struct cover *half = cofactor(cover, variable, pair), *result = complement(half);
    cover_free(half);
    return result;
}

__attribute__((noinline)) static struct cover *complement(const struct cover *cover) {
    if (cover->count == 0) {
        return cover_add(cover_new(1), cube_new(NULL));
    }
    for (size_t i = 0; i < cover->count; i++) {
        if (is_full(cover->cubes[i])) {
            return cover_new(0);
        }
    }
    if (cover->count == 1) {
        return complement_of_cube(cover->cubes[0]);
    }
    bool any;
    int variable = most_binate(cover, &any);
    if (variable < 0) {
        variable = first_used(cover);
        struct cover *one = complement_half(cover, variable, 2),
                     *zero = complement_half(cover, variable, 1);
        return without_contained(merged(zero, one, variable));
    }
    struct cover *zero = complement_half(cover, variable, 1),
                 *one = complement_half(cover, variable, 2);
    return without_contained(merged(zero, one, variable));
}

__attribute__((noinline)) static bool is_tautology(const struct cover *cover) {
    for (size_t i = 0; i < cover->count; i++) {
        if (is_full(cover->cubes[i])) {
            return true;
        }
    }
    bool any;
    int variable = most_binate(cover, &any);
    if (variable < 0) {
        return false; /* no variable occurs in both phases, and no cube is full: no tautology */
    }
    struct cover *half = cofactor(cover, variable, 1);
    bool result = is_tautology(half);
    cover_free(half);
    if (result) {
        half = cofactor(cover, variable, 2);
        result = is_tautology(half);
        cover_free(half);
    }
    return result;
}

static uint64_t state = 88172645463325252;
static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static struct cover *random_cover(size_t n_cubes, int n_literals) {
    struct cover *cover = cover_new(n_cubes);
    for (size_t i = 0; i < n_cubes; i++) {
        struct cube *cube = cube_new(NULL);
        for (int k = 0; k < n_literals; k++) {
            set_pair(cube, (int)(next_random() >> 33) % n_variables,
                     1 + (unsigned)(next_random() >> 33 & 1));
        }
        cover = cover_add(cover, cube);
    }
    return cover;
}

int main(int n_arguments, char **arguments) {
    int rounds = n_arguments > 1 ? atoi(arguments[1]) : 10;
    size_t n_cubes = 0;
    int n_proved = 0;
    n_variables = 11;
    for (int round = 0; round < rounds; round++) {
        struct cover *f = random_cover(30, 5), *g = complement(f);
        n_cubes += g->count;
        struct cover *all = cover_new(f->count + g->count);
        for (size_t i = 0; i < f->count; i++) {
            all = cover_add(all, cube_new(f->cubes[i]));
        }
        for (size_t i = 0; i < g->count; i++) {
            all = cover_add(all, cube_new(g->cubes[i]));
        }
        n_proved += is_tautology(all);
        cover_free(all);
        cover_free(f);
        cover_free(g);
    }
    printf("%zu cubes, %d proved\n", n_cubes, n_proved);
    fprintf(stderr, "allocations %" PRIu64 "\n", n_allocated);
    say_resident();
    return n_proved == rounds ? 0 : 1;
}
