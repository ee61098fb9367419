/* test_resident_look.c: the list of resident pages of a mapping is exact, whatever the number of
 * runs of pages in it. The test knows the resident pages, because it writes to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/page_runs.h"
#include "writer/resident_look.h"

enum { PAGE = 4096, PAGES = 3 * 2200 };

/* Returns whether page I of the mapping is written to: N_RUNS runs of one or two pages. */
static bool is_written(size_t i, size_t n_runs) {
    return i / 3 < n_runs && (i % 3 == 0 || (i % 3 == 1 && i / 3 % 2 == 0));
}

static const struct ag_resident_mapping *mapping_at(const struct ag_resident_look *look,
                                                    uint64_t address) {
    for (size_t i = 0; i < look->n_mappings; i++) {
        if (look->mappings[i].low <= address && address < look->mappings[i].high) {
            return &look->mappings[i];
        }
    }
    return NULL;
}

static void check_runs(size_t n_runs) {
    /* inaccessible pages around the mapping keep the kernel from merging it with another one */
    char *all =
             mmap(NULL, (size_t)(PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *bytes = all + PAGE;
    assert_ptr_not_equal(all, MAP_FAILED);
    assert_return_code(mprotect(bytes, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
    (void)madvise(bytes, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE); /* fails without huge pages */
    for (size_t i = 0; i < PAGES; i++) {
        if (is_written(i, n_runs)) {
            ((volatile char *)bytes)[i * PAGE] = 1;
        }
    }
    struct ag_resident_look look;
    assert_return_code(ag_resident_look_read((uint32_t)getpid(), &look), 0);
    assert_return_code(ag_resident_look_read_pages((uint32_t)getpid(), &look), 0);
    const struct ag_resident_mapping *mapping = mapping_at(&look, (uintptr_t)bytes);
    assert_non_null(mapping);
    assert_int_equal(mapping->low, (uintptr_t)bytes);
    assert_non_null(mapping->pages);
    struct ag_page_runs runs = ag_page_runs_of(mapping, look.page_bytes);
    (void)ag_page_runs_next(&runs);
    for (size_t i = 0; i < PAGES; i++) {
        const uint64_t page = (uintptr_t)bytes + i * PAGE;
        while (runs.high <= page && ag_page_runs_next(&runs)) {
        }
        if ((runs.low <= page && page < runs.high) != is_written(i, n_runs)) {
            fail_msg("with %zu runs, page %zu is wrong", n_runs, i);
        }
    }
    ag_resident_look_done(&look);
    assert_return_code(munmap(all, (size_t)(PAGES + 2) * PAGE), 0);
}

/* The kernel collects 512 ranges at a time, and resident_look.c asks for 1024. */
static void runs_around_limits(void **state) {
    static const size_t counts[] = {1,    2,    511,  512,  513,  514,  600,  767,  1023,
                                    1024, 1025, 1026, 1500, 1535, 1536, 1537, 2048, 2200};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        check_runs(counts[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_around_limits)};
    if (sysconf(_SC_PAGESIZE) != PAGE) {
        return 77; /* skipped: the test writes to pages of 4 KiB */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
