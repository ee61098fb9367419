/* factor.c: a benchmark program that does little but allocate. It expands sqrt(N) as a continued
 * fraction and divides small primes out of the values, as CFRAC (a method of factoring integers)
 * does. Numbers are blocks of 6 to 134 bytes; every operation allocates its result, and its
 * operands are freed. The program makes about 20 million pairs of malloc and free per second, at a
 * depth of about 8 frames, and nearly every block is freed before the next allocation.
 *
 * factor STEPS: prints the number of small factors; on standard error its own count of pairs and
 * its resident memory. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resident.h"

struct number {
    uint32_t n_limbs; /* without leading zeros; the number 0 has no limbs */
    uint16_t limbs[]; /* the lowest first; 16 bits each, as in CFRAC */
};

static uint64_t n_allocated;

static struct number *number_new(uint32_t n_limbs) {
    struct number *number = malloc(sizeof *number + n_limbs * sizeof(uint16_t));
    if (number == NULL) {
        abort();
    }
    number->n_limbs = n_limbs;
    n_allocated++;
    return number;
}

static struct number *trimmed(struct number *number) {
    while (number->n_limbs > 0 && number->limbs[number->n_limbs - 1] == 0) {
        number->n_limbs--;
    }
    return number;
}

static struct number *number_of(uint64_t value) {
    struct number *number = number_new(4);
    for (int i = 0; i < 4; i++) {
        number->limbs[i] = (uint16_t)(value >> 16 * i);
    }
    return trimmed(number);
}

static struct number *copied(const struct number *a) {
    struct number *copy = number_new(a->n_limbs);
    memcpy(copy->limbs, a->limbs, a->n_limbs * sizeof(uint16_t));
    return copy;
}

static struct number *sum(const struct number *a, const struct number *b) {
    uint32_t n = a->n_limbs > b->n_limbs ? a->n_limbs : b->n_limbs;
    struct number *result = number_new(n + 1);
    uint32_t carry = 0;
    for (uint32_t i = 0; i < n; i++) {
        carry += (i < a->n_limbs ? a->limbs[i] : 0u) + (i < b->n_limbs ? b->limbs[i] : 0u);
        result->limbs[i] = (uint16_t)carry;
        carry >>= 16;
    }
    result->limbs[n] = (uint16_t)carry;
    return trimmed(result);
}

static struct number *difference(const struct number *a, const struct number *b) { /* a >= b */
    struct number *result = number_new(a->n_limbs);
    int32_t borrow = 0;
    for (uint32_t i = 0; i < a->n_limbs; i++) {
        borrow += a->limbs[i] - (i < b->n_limbs ? b->limbs[i] : 0);
        result->limbs[i] = (uint16_t)borrow;
        borrow >>= 16;
    }
    return trimmed(result);
}

static struct number *product(const struct number *a, const struct number *b) {
    struct number *result = number_new(a->n_limbs + b->n_limbs);
    memset(result->limbs, 0, result->n_limbs * sizeof(uint16_t));
    for (uint32_t i = 0; i < a->n_limbs; i++) {
        uint32_t carry = 0;
        for (uint32_t k = 0; k < b->n_limbs; k++) {
            carry += result->limbs[i + k] + (uint32_t)a->limbs[i] * b->limbs[k];
            result->limbs[i + k] = (uint16_t)carry;
            carry >>= 16;
        }
        result->limbs[i + b->n_limbs] = (uint16_t)carry;
    }
    return trimmed(result);
}

static struct number *quotient_by_small(const struct number *a, uint32_t divisor,
                                        uint32_t *ret_rest) {
    struct number *result = number_new(a->n_limbs);
    uint32_t rest = 0;
    for (uint32_t i = a->n_limbs; i-- > 0;) {
        rest = rest << 16 | a->limbs[i];
        result->limbs[i] = (uint16_t)(rest / divisor);
        rest %= divisor;
    }
    *ret_rest = rest;
    return trimmed(result);
}

static int compared(const struct number *a, const struct number *b) {
    if (a->n_limbs != b->n_limbs) {
        return a->n_limbs < b->n_limbs ? -1 : 1;
    }
    for (uint32_t i = a->n_limbs; i-- > 0;) {
        if (a->limbs[i] != b->limbs[i]) {
            return a->limbs[i] < b->limbs[i] ? -1 : 1;
        }
    }
    return 0;
}

static struct number *doubled_plus(const struct number *a, uint32_t bit) {
    struct number *result = number_new(a->n_limbs + 1);
    uint32_t carry = bit;
    for (uint32_t i = 0; i < a->n_limbs; i++) {
        result->limbs[i] = (uint16_t)(a->limbs[i] << 1 | carry);
        carry = a->limbs[i] >> 15;
    }
    result->limbs[a->n_limbs] = (uint16_t)carry;
    return trimmed(result);
}

/* a / b and a % b, bit by bit; each bit allocates numbers, as in a simple program. */
static struct number *divided(const struct number *a, const struct number *b,
                              struct number **ret_rest) {
    struct number *quotient = number_new(a->n_limbs), *rest = number_of(0);
    memset(quotient->limbs, 0, quotient->n_limbs * sizeof(uint16_t));
    for (uint32_t bit = a->n_limbs * 16; bit-- > 0;) {
        struct number *next = doubled_plus(rest, a->limbs[bit / 16] >> bit % 16 & 1);
        free(rest);
        rest = next;
        if (compared(rest, b) >= 0) {
            next = difference(rest, b);
            free(rest);
            rest = next;
            quotient->limbs[bit / 16] |= (uint16_t)(1u << bit % 16);
        }
    }
    *ret_rest = rest;
    return trimmed(quotient);
}

static struct number *root(const struct number *a) { /* floor of the square root, by Newton */
    struct number *x = copied(a), *two = number_of(2);
    for (;;) {
        struct number *rest, *q = divided(a, x, &rest), *s = sum(x, q);
        free(rest);
        free(q);
        struct number *next = divided(s, two, &rest);
        free(rest);
        free(s);
        if (compared(next, x) >= 0) {
            free(next);
            free(two);
            return x;
        }
        free(x);
        x = next;
    }
}

enum { N_PRIMES = 120, N_LIMBS = 64 }; /* N_LIMBS sets the work between allocations */
static uint32_t primes[N_PRIMES];

static void find_primes(void) {
    uint32_t n = 0;
    for (uint32_t candidate = 2; n < N_PRIMES; candidate++) {
        uint32_t divisor = 2;
        while (divisor * divisor <= candidate && candidate % divisor != 0) {
            divisor++;
        }
        if (divisor * divisor > candidate) {
            primes[n++] = candidate;
        }
    }
}

/* CFRAC computes the remainder before it divides. With this loop, factor makes as many pairs of
 * malloc and free per second as CFRAC (20 to 25 million; without it 30 million). */
__attribute__((noinline)) static uint32_t rest_by_small(const struct number *a, uint32_t divisor) {
    uint32_t rest = 0;
    for (uint32_t i = a->n_limbs; i-- > 0;) {
        rest = (rest << 16 | a->limbs[i]) % divisor;
    }
    return rest;
}

/* Divides q by the prime as often as possible; frees q and returns the result. */
__attribute__((noinline)) static struct number *without_prime(struct number *q, uint32_t prime,
                                                              uint32_t *exponent) {
    for (;;) {
        uint32_t rest;
        const uint32_t expected_rest = rest_by_small(q, prime);
        struct number *next = quotient_by_small(q, prime, &rest);
        if (rest != expected_rest) {
            abort();
        }
        if (rest != 0) {
            free(next);
            return q;
        }
        free(q);
        q = next;
        (*exponent)++;
    }
}

__attribute__((noinline)) static uint32_t exponents_of(const struct number *value) {
    struct number *q = copied(value);
    uint32_t exponents = 0;
    for (int i = 0; i < N_PRIMES; i++) {
        q = without_prime(q, primes[i], &exponents);
    }
    free(q);
    return exponents;
}

struct expansion { /* of sqrt(n): the current value is (a0 + m) / q, and `a` is its integer part */
    struct number *n, *a0, *m, *q, *a;
};

__attribute__((noinline)) static void step(struct expansion *e) {
    struct number *qa = product(e->q, e->a), *m = difference(qa, e->m), *mm = product(m, m);
    struct number *rest, *top = difference(e->n, mm), *q = divided(top, e->q, &rest);
    struct number *above = sum(e->a0, m), *rest_a, *a = divided(above, q, &rest_a);
    struct number *gone[] = {qa, mm, rest, top, above, rest_a, e->m, e->q, e->a};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        free(gone[i]);
    }
    e->m = m;
    e->q = q;
    e->a = a;
}

static struct number *random_number(uint32_t n_limbs, uint64_t seed) {
    struct number *number = number_new(n_limbs);
    for (uint32_t i = 0; i < n_limbs; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        number->limbs[i] = (uint16_t)(seed >> 48 | 1);
    }
    return number;
}

__attribute__((noinline)) static uint32_t expand(uint64_t seed, long n_steps) {
    struct expansion e = {.n = random_number(N_LIMBS, seed), .m = number_of(0), .q = number_of(1)};
    uint32_t exponents = 0;
    e.a0 = root(e.n);
    e.a = copied(e.a0);
    for (long i = 0; i < n_steps; i++) {
        step(&e);
        exponents += exponents_of(e.q);
    }
    struct number *gone[] = {e.n, e.a0, e.m, e.q, e.a};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        free(gone[i]);
    }
    return exponents;
}

int main(int n_arguments, char **arguments) {
    long n_steps = n_arguments > 1 ? atol(arguments[1]) : 20000;
    find_primes();
    printf("%" PRIu32 " small factors\n",
           expand(1, n_steps / 2) + expand(2, n_steps - n_steps / 2));
    fprintf(stderr, "allocations %" PRIu64 "\n", n_allocated);
    say_resident();
    return 0;
}
