/* test_observe_parts.c: the parts of `allogram observe` that read untrusted input:
 * /proc/PID/maps, perf maps, jitdumps, ELF objects, and system calls that are reported in any
 * order. Also the lists of observed frames and stacks, and words of memory that are watched by
 * the CPU's debug registers. */
#include <elf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "observe/generated_code.h"
#include "observe/mapping_ledger.h"
#include "observe/observation.h"
#include "observe/perf_watch.h"
#include "observe/seen_stacks.h"
#include "remote/remote_maps.h"

/* ---- /proc/PID/maps ------------------------------------------------------------------- */

static void lines_of_a_map_are_ranges_with_paths(void **state) {
    (void)state;
    struct ag_remote_maps maps = {0};
    assert_int_equal(
        ag_remote_maps_parse(&maps, strdup("1000-3000 r-xp 00002000 08:01 77   /a b/c (deleted)\n"
                                           "4000-5000 rw-p 00000000 00:00 0\n"
                                           "7ffc0000-7ffd0000 rw-p 0 00:00 0 [stack]\n")),
        0);
    assert_int_equal(maps.n, 3);
    assert_null(ag_remote_maps_find(&maps, 0xfff));
    assert_string_equal(ag_remote_maps_find(&maps, 0x2fff)->path, "/a b/c (deleted)");
    assert_int_equal(maps.items[0].file_offset, 0x2000);
    assert_int_equal(maps.items[0].inode, 77);
    assert_null(ag_remote_maps_find(&maps, 0x3000));
    assert_string_equal(ag_remote_maps_find(&maps, 0x4000)->path, "");
    assert_string_equal(ag_remote_maps_find(&maps, 0x7ffc0000)->path, "[stack]");
    ag_remote_maps_done(&maps);
}

static void invalid_lines_are_skipped(void **state) {
    (void)state;
    struct ag_remote_maps maps = {0};
    assert_int_equal(ag_remote_maps_parse(&maps, strdup("\n\nxyz\n3000-1000 r-xp 0 0:0 0\n-\n"
                                                        "1000-2000 r--p 0 08:01 5 /x")),
                     0);
    assert_int_equal(maps.n, 1);
    assert_string_equal(maps.items[0].path, "/x");
    ag_remote_maps_done(&maps);
}

/* ---- which stack mapped which bytes ---- */

static uint64_t bytes_of(const struct ag_mapping_ledger *ledger, uint32_t node) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < ledger->n; i++) {
        bytes += ledger->items[i].node == node ? ledger->items[i].high - ledger->items[i].low : 0;
        assert_true(ledger->items[i].low < ledger->items[i].high);
        assert_true(i == 0 || ledger->items[i - 1].high <= ledger->items[i].low);
    }
    return bytes;
}

static void tell(struct ag_mapping_ledger *ledger, uint64_t time_ns, enum ag_mapping_call call,
                 uint64_t first, uint64_t second, uint64_t third, uint64_t result, uint32_t node) {
    const struct ag_ledger_call reported = {time_ns, {first, second, third}, result, node, call};
    assert_int_equal(ag_mapping_ledger_notify(ledger, &reported), 0);
}

static void unmapping_cuts_ranges_at_both_ends_and_in_the_middle(void **state) {
    (void)state;
    struct ag_mapping_ledger ledger = {0};
    assert_int_equal(ag_mapping_ledger_map(&ledger, 0x10000, 0x20000, 1), 0);
    assert_int_equal(ag_mapping_ledger_map(&ledger, 0x20000, 0x30000, 2), 0);
    assert_int_equal(ag_mapping_ledger_unmap(&ledger, 0x14000, 0x15000), 0); /* unmaps the middle */
    assert_int_equal(bytes_of(&ledger, 1), 0xf000);
    /* unmaps the end of one mapping and the start of the next */
    assert_int_equal(ag_mapping_ledger_unmap(&ledger, 0x1e000, 0x22000), 0);
    assert_int_equal(bytes_of(&ledger, 1), 0xd000);
    assert_int_equal(bytes_of(&ledger, 2), 0xe000);
    assert_int_equal(ag_mapping_ledger_map(&ledger, 0, 0x40000, 3), 0); /* replaces all mappings */
    assert_int_equal(ledger.n, 1);
    assert_int_equal(ag_mapping_ledger_unmap(&ledger, 0, UINT64_MAX), 0);
    assert_int_equal(ledger.n, 0);
    ag_mapping_ledger_done(&ledger);
}

static void calls_are_applied_by_their_times_not_as_they_are_reported(void **state) {
    (void)state;
    struct ag_mapping_ledger ledger = {0};
    tell(&ledger, 20, AG_CALL_MUNMAP, 0x10000, 0x1000, 0, 0, 9);
    tell(&ledger, 10, AG_CALL_MMAP, 0, 0xfff, 3, 0x10000, 1); /* rounded up to a page */
    tell(&ledger, 30, AG_CALL_MMAP, 0, 0x2000, 3, 0x10000, 2);
    assert_int_equal(ag_mapping_ledger_settle(&ledger, 30), 0);
    assert_int_equal(ledger.n, 0); /* the call at time 30 is not yet applied */
    assert_int_equal(ag_mapping_ledger_settle(&ledger, UINT64_MAX), 0);
    assert_int_equal(bytes_of(&ledger, 2), 0x2000);
    ag_mapping_ledger_done(&ledger);
}

static void failed_calls_change_nothing_and_brk_counts_what_it_moves(void **state) {
    (void)state;
    struct ag_mapping_ledger ledger = {.end_of_heap = 0x100000};
    tell(&ledger, 1, AG_CALL_MMAP, 0, 0x1000, 3, (uint64_t)-12, 1);
    tell(&ledger, 2, AG_CALL_BRK, 0, 0, 0, 0x104000, 2);
    tell(&ledger, 3, AG_CALL_BRK, 0, 0, 0, 0x102000, 3);
    tell(&ledger, 4, AG_CALL_MMAP, 0, 0x3000, 3, 0x700000, 4);
    tell(&ledger, 5, AG_CALL_MREMAP, 0x700000, 0x3000, 0x8000, 0x900000, 5);
    assert_int_equal(ag_mapping_ledger_settle(&ledger, UINT64_MAX), 0);
    assert_int_equal(bytes_of(&ledger, 1), 0);
    assert_int_equal(bytes_of(&ledger, 2), 0x2000);
    assert_int_equal(bytes_of(&ledger, 3), 0);
    assert_int_equal(bytes_of(&ledger, 4), 0);
    assert_int_equal(bytes_of(&ledger, 5), 0x8000);
    ag_mapping_ledger_done(&ledger);
}

/* ---- generated code ------------------------------------------------------------------------ */

static void a_perf_map_names_functions_and_the_newest_counts(void **state) {
    (void)state;
    struct ag_generated_code code = {0};
    char text[] = "1000 40 first one\n\nnot a line\n2000 zz bad\n1000 20 second\n3000 0 empty\n"
                  "4000 ffffffffffffffff huge\n5000 10 esc\x1b[31m\n6000 10";
    ag_generated_code_read_map(&code, text);
    ag_generated_code_sort(&code);
    assert_string_equal(ag_generated_code_find(&code, 0x101f)->name, "second");
    assert_null(ag_generated_code_find(&code, 0x1020));
    assert_null(ag_generated_code_find(&code, 0xfff));
    assert_null(ag_generated_code_find(&code, 0x4000));
    assert_string_equal(ag_generated_code_find(&code, 0x5000)->name, "esc?[31m");
    ag_generated_code_done(&code);
}

/* A perf map with a region, 40 functions in it with gaps between them, and a function that replaces
 * the last 30 of them. */
static void a_function_replaces_all_older_functions_at_its_addresses(void **state) {
    (void)state;
    struct ag_generated_code code = {0};
    char text[4096] = "f000 11000 region\n";
    for (unsigned i = 0; i < 40; i++) {
        const size_t n = strlen(text);
        (void)snprintf(text + n, sizeof text - n, "%x 80 small %u\n", 0x10000 + i * 0x100, i);
    }
    (void)strcat(text, "10a40 1e00 large\n");
    ag_generated_code_read_map(&code, text);
    ag_generated_code_sort(&code);
    assert_string_equal(ag_generated_code_find(&code, 0xf000)->name, "region");
    assert_string_equal(ag_generated_code_find(&code, 0x10000)->name, "small 0");
    assert_string_equal(ag_generated_code_find(&code, 0x10080)->name, "region");
    assert_string_equal(ag_generated_code_find(&code, 0x10a3f)->name, "small 10");
    assert_string_equal(ag_generated_code_find(&code, 0x10a40)->name, "large");
    assert_string_equal(ag_generated_code_find(&code, 0x12710)->name, "large");
    assert_string_equal(ag_generated_code_find(&code, 0x1283f)->name, "large");
    assert_string_equal(ag_generated_code_find(&code, 0x12840)->name, "region");
    assert_string_equal(ag_generated_code_find(&code, 0x1ffff)->name, "region");
    assert_null(ag_generated_code_find(&code, 0x20000));
    /* functions that are read later replace those that were sorted before */
    char later[] = "12000 10 later\n20000 10 outside\n";
    ag_generated_code_read_map(&code, later);
    ag_generated_code_sort(&code);
    assert_string_equal(ag_generated_code_find(&code, 0x12000)->name, "later");
    assert_string_equal(ag_generated_code_find(&code, 0x12010)->name, "large");
    assert_string_equal(ag_generated_code_find(&code, 0x2000f)->name, "outside");
    ag_generated_code_done(&code);
}

/* Compares the result for each address with that of a search through all functions. A function that
 * begins inside a newer one does not exist any more. */
static void of_random_functions_the_newest_is_found(void **state) {
    (void)state;
    enum { FUNCTIONS = 60, ADDRESSES = 256 };
    uint64_t random = 5;
    for (int round = 0; round < 300; round++) {
        struct ag_generated_code code = {0};
        unsigned low[FUNCTIONS], high[FUNCTIONS];
        bool is_replaced[FUNCTIONS] = {false};
        for (unsigned i = 0; i < FUNCTIONS; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            low[i] = 1 + (random >> 33) % ADDRESSES;
            high[i] = low[i] + 1 + (random >> 50) % (i % 5 == 0 ? 100 : 8);
            char line[64];
            (void)snprintf(line, sizeof line, "%x %x %u\n", low[i], high[i] - low[i], i);
            ag_generated_code_read_map(&code, line);
        }
        ag_generated_code_sort(&code);
        for (unsigned i = FUNCTIONS; i-- > 0;) {
            for (unsigned newer = i + 1; newer < FUNCTIONS; newer++) {
                is_replaced[i] |=
                    !is_replaced[newer] && low[newer] <= low[i] && low[i] < high[newer];
            }
        }
        for (unsigned address = 0; address < 2 * ADDRESSES; address++) {
            const struct ag_generated_function *found = ag_generated_code_find(&code, address);
            unsigned newest = FUNCTIONS;
            for (unsigned i = 0; i < FUNCTIONS; i++) {
                newest = low[i] <= address && address < high[i] && !is_replaced[i] ? i : newest;
            }
            assert_int_equal(found != NULL ? (unsigned)strtoul(found->name, NULL, 10) : FUNCTIONS,
                             newest);
        }
        ag_generated_code_done(&code);
    }
}

static size_t put(uint8_t *to, uint64_t value, size_t n) {
    memcpy(to, &value, n);
    return n;
}

/* A jitdump with one function "jitted" at 0x7000 that has 0x30 bytes of code, without the code. */
static size_t make_dump(uint8_t *dump) {
    size_t n = put(dump, 0x4a695444, 4);
    n += put(dump + n, 1, 4);
    n += put(dump + n, 40, 4);
    memset(dump + n, 0, 40 - n);
    n = 40;
    n += put(dump + n, 0, 4);
    n += put(dump + n, 16 + 40 + 7, 4);
    n += put(dump + n, 99, 8);
    n += put(dump + n, 1, 8);
    n += put(dump + n, 0x7000, 8);
    n += put(dump + n, 0x7000, 8);
    n += put(dump + n, 0x30, 8);
    n += put(dump + n, 1, 8);
    memcpy(dump + n, "jitted", 7);
    return n + 7;
}

static void a_jitdump_names_functions(void **state) {
    (void)state;
    struct ag_generated_code code = {0};
    uint8_t dump[256];
    const size_t n = make_dump(dump);
    ag_generated_code_read_dump(&code, dump, n);
    ag_generated_code_sort(&code);
    assert_string_equal(ag_generated_code_find(&code, 0x702f)->name, "jitted");
    ag_generated_code_done(&code);
}

/* Reads the test's own file, a real ELF file that the test then damages. */
static uint8_t *own_file(size_t *ret_bytes) {
    enum { MOST = 8 << 20 };
    FILE *file = fopen("/proc/self/exe", "re");
    uint8_t *bytes = malloc(MOST);
    assert_non_null(file);
    assert_non_null(bytes);
    *ret_bytes = fread(bytes, 1, MOST, file);
    fclose(file);
    return bytes;
}

static void damaged_input_is_read_without_harm(void **state) {
    (void)state;
    uint8_t dump[256];
    const size_t n_dump = make_dump(dump);
    size_t n_object;
    uint8_t *object = own_file(&n_object);
    uint64_t random = 7;
    for (int round = 0; round < 3000; round++) {
        struct ag_generated_code code = {0};
        uint8_t copy[256];
        char text[257];
        memcpy(copy, dump, n_dump);
        for (int i = 0; i < 4; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            copy[(random >> 33) % n_dump] = (uint8_t)(random >> 56);
        }
        ag_generated_code_read_dump(&code, copy, (random >> 20) % (n_dump + 1));
        memcpy(text, copy, n_dump);
        text[n_dump] = '\0';
        ag_generated_code_read_map(&code, text);
        if (round % 30 == 0) { /* damages the ELF header only, on which the rest depends */
            const size_t at = (random >> 13) % sizeof(Elf64_Ehdr);
            const uint8_t before = object[at];
            object[at] = (uint8_t)(random >> 48);
            ag_generated_code_read_object(&code, object, n_object - (random >> 40) % 4096);
            object[at] = before;
        }
        ag_generated_code_sort(&code);
        (void)ag_generated_code_find(&code, random);
        ag_generated_code_done(&code);
    }
    free(object);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void equal_frames_and_nodes_are_kept_once(void **state) {
    (void)state;
    struct ag_seen_stacks seen = {0};
    uint32_t first[3000];
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 3000; i++) {
            const uint32_t frame =
                ag_seen_frame_id(&seen, &(struct ag_seen_frame){.image = 1, .pc = i / 2});
            const uint32_t node = ag_seen_node_id(&seen, i % 2, frame);
            first[i] = round == 0 ? node : first[i];
            assert_int_equal(node, first[i]);
            assert_int_equal(ag_seen_count(&seen, node, 7, AG_SEEN_CPU, 5), 0);
        }
    }
    assert_int_equal(seen.n_frames, 1500);
    assert_int_equal(seen.n_nodes, 3000);
    assert_int_equal(seen.n_counts, 3000);
    assert_int_equal(seen.counts[2999].samples, 2);
    assert_int_equal(seen.counts[2999].weight, 10);
    assert_int_equal(ag_seen_text(&seen, "a"), ag_seen_text(&seen, "a"));
    assert_int_not_equal(ag_seen_text(&seen, "a"), ag_seen_text(&seen, "b"));
    assert_int_equal(ag_seen_text(&seen, NULL), 0);
    ag_seen_stacks_done(&seen);
}

/* ---- watched words ------------------------------------------------------------------------ */

enum { WATCHED_WORDS = 50, WRITES = 100 };
static volatile uint64_t watched_words[WATCHED_WORDS];

static void count_sample(void *context, const struct ag_perf_sample *sample) {
    uint64_t *n = context;
    n[0]++;
    n[1] = sample->address;
}

/* Writes to the word, and returns how many samples there are of it. */
static uint64_t samples_of(struct ag_perf_watch *watch, volatile uint64_t *word) {
    uint64_t seen[2] = {0};
    const struct ag_perf_sink sink = {.sample = count_sample, .context = seen};
    for (uint64_t i = 0; i < WRITES; i++) {
        *word = i;
    }
    ag_perf_watch_drain(watch, &sink);
    if (seen[0] > 0) {
        assert_int_equal(seen[1], (uintptr_t)word);
    }
    return seen[0];
}

static void a_watched_word_has_one_sample(void **state) {
    (void)state;
    char message[512] = "";
    struct ag_remote_process process;
    struct ag_perf_watch *watch = NULL;
    const struct ag_perf_source faults = {
        .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS, .period = 1 << 20};
    const int cpu = sched_getcpu();
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    assert_int_equal(ag_remote_process_open(getpid(), &process, message), 0);
    if (ag_perf_watch_open(&process, &faults, 1, /* wakes_at_once= */ true, &watch, message) < 0) {
        print_message("# SKIP: perf events cannot be opened: %s\n", message);
        skip();
    }
    const int source = ag_perf_watch_add_word(watch, /* stack_bytes= */ 64);
    if (source < 0) {
        print_message("# SKIP: debug registers cannot be used: %s\n", strerror(-source));
        (void)ag_perf_watch_close(watch);
        skip();
    }
    /* stay on one CPU, because a thread has an event for each CPU */
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < WATCHED_WORDS; i++) { /* no word but the last is written */
            assert_int_equal(
                ag_perf_watch_set_word(watch, (size_t)source, (uintptr_t)&watched_words[i]), 0);
        }
        assert_int_equal(samples_of(watch, &watched_words[WATCHED_WORDS - 1]), 1);
        assert_int_equal(samples_of(watch, &watched_words[WATCHED_WORDS - 1]), 0);
    }
    assert_int_equal(ag_perf_watch_set_word(watch, (size_t)source, (uintptr_t)&watched_words[0]),
                     0);
    assert_int_equal(samples_of(watch, &watched_words[1]), 0);
    assert_int_equal(samples_of(watch, &watched_words[0]), 1);
    /* the event cannot be opened again: the events of other CPUs are disabled, too */
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, limit.rlim_max}), 0);
    assert_int_equal(ag_perf_watch_set_word(watch, (size_t)source, (uintptr_t)&watched_words[0]),
                     -EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (unsigned i = 0; i < CPU_SETSIZE; i++) {
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        if (CPU_ISSET(i, &all) && sched_setaffinity(0, sizeof one, &one) == 0) {
            assert_int_equal(samples_of(watch, &watched_words[0]), 0);
        }
    }
    (void)ag_perf_watch_close(watch);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_a_map_are_ranges_with_paths),
        cmocka_unit_test(invalid_lines_are_skipped),
        cmocka_unit_test(unmapping_cuts_ranges_at_both_ends_and_in_the_middle),
        cmocka_unit_test(calls_are_applied_by_their_times_not_as_they_are_reported),
        cmocka_unit_test(failed_calls_change_nothing_and_brk_counts_what_it_moves),
        cmocka_unit_test(a_perf_map_names_functions_and_the_newest_counts),
        cmocka_unit_test(a_function_replaces_all_older_functions_at_its_addresses),
        cmocka_unit_test(of_random_functions_the_newest_is_found),
        cmocka_unit_test(a_jitdump_names_functions),
        cmocka_unit_test(damaged_input_is_read_without_harm),
        cmocka_unit_test(equal_frames_and_nodes_are_kept_once),
        cmocka_unit_test(a_watched_word_has_one_sample),
    };
    return cmocka_run_group_tests_name("observe_parts", tests, NULL, NULL);
}
