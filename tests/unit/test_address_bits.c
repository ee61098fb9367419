/* test_address_bits.c: adds addresses to sets: by threads that add addresses of one region at the
 * same time, and after the memory for the sets could not be mapped for a while. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/address_bits.h"

enum { N_THREADS = 2, N_REGIONS = 4000, SPINS = 10000, REGION_SHIFT = 20, FAILED_MAPS = 300000 };
static const uintptr_t first_region = (uintptr_t)1 << 40;

/* ---- threads ---- */

static struct ag_address_bits bits;
static _Atomic unsigned n_arrived;
static uint8_t visits[N_REGIONS][N_THREADS];

static uintptr_t address_of(unsigned region, unsigned thread) {
    return first_region + ((uintptr_t)region << REGION_SHIFT) + thread * 16;
}

/* Adds an address to each region, at the same time as the other threads. */
static void *add_to_each(void *context) {
    const unsigned thread = (unsigned)(uintptr_t)context;
    for (unsigned region = 0; region < N_REGIONS; region++) {
        atomic_fetch_add(&n_arrived, 1);
        for (int i = 0; atomic_load(&n_arrived) < (region + 1) * N_THREADS; i++) {
            if (i > SPINS) {
                sched_yield(); /* the other thread has no CPU */
            }
        }
        assert_true(ag_address_bits_set(&bits, 0, address_of(region, thread)));
    }
    return NULL;
}

static void count_visit(void *context, uintptr_t address) {
    const uintptr_t place = address - first_region;
    (void)context;
    visits[place >> REGION_SHIFT][place / 16 % N_THREADS]++;
}

static void a_region_that_two_threads_create_is_visited_once(void **state) {
    (void)state;
    pthread_t threads[N_THREADS];
    assert_int_equal(ag_address_bits_start(&bits, 1, /* forgets_on_fork= */ false), 0);
    for (uintptr_t i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_to_each, (void *)i), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    ag_address_bits_walk(&bits, 0, count_visit, NULL);
    for (size_t region = 0; region < N_REGIONS; region++) {
        for (size_t thread = 0; thread < N_THREADS; thread++) {
            assert_int_equal(visits[region][thread], 1);
        }
    }
}

/* ---- memory ---- */

static void a_failed_mapping_uses_no_region(void **state) {
    (void)state;
    static struct ag_address_bits few;
    struct rlimit before, none;
    assert_int_equal(ag_address_bits_start(&few, 1, /* forgets_on_fork= */ false), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    unsigned n_set = 0;
    for (int i = 0; i < FAILED_MAPS; i++) {
        n_set += ag_address_bits_set(&few, 0, first_region);
    }
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(n_set, 0);
    assert_true(ag_address_bits_set(&few, 0, first_region));
    assert_true(ag_address_bits_has(&few, 0, first_region));
    assert_false(ag_address_bits_has(&few, 0, first_region + 16));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_region_that_two_threads_create_is_visited_once),
        cmocka_unit_test(a_failed_mapping_uses_no_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
