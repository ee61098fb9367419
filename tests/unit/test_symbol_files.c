/* test_symbol_files.c: which files the symbolizer opens for an image (a program or library), which
 * it refuses, and which problems it reports. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/elf_file.h"
#include "symbol_fixture.h"

static const char work_c[] = "__attribute__((noinline)) int work(int x) {\n"
                             "    __asm__ volatile(\".globl mark\\nmark: nop\"); /* here */\n"
                             "    return x + 1;\n"
                             "}\n"
                             "int main(int n, char **v) { (void)v; return work(n); }\n";

/* Builds FILE and returns the address of its label `mark`. FILE.full is a copy with all symbols. */
static uint64_t build(const char *file, const char *link_options) {
    fixture_write("work.c", work_c);
    fixture_run("gcc -O1 -g %s work.c -o %s && cp %s %s.full", link_options, file, file, file);
    return fixture_address(file, "mark");
}

static void check_work(struct ag_symbolizer *symbolizer, uint64_t address, bool has_line) {
    const struct ag_symbol_frame *frames;
    assert_int_equal(ag_symbolizer_frames(symbolizer, 1, address, false, &frames), 1);
    assert_string_equal(frames[0].function, "work");
    assert_true(frames[0].is_known);
    assert_int_equal(frames[0].line, has_line ? fixture_line(work_c, "/* here") : 0);
}

static void check_unknown(struct ag_symbolizer *symbolizer, uint64_t address, const char *image) {
    const struct ag_symbol_frame *frames;
    char name[300];
    snprintf(name, sizeof(name), "0x%llx [%s]", (unsigned long long)address, image);
    assert_int_equal(ag_symbolizer_frames(symbolizer, 1, address, false, &frames), 1);
    assert_string_equal(frames[0].function, name);
    assert_false(frames[0].is_known);
}

static void symbol_table_alone_gives_functions(void **state) {
    (void)state;
    const uint64_t address = build("nodebug", "");
    fixture_run("strip -g nodebug");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "nodebug");
    check_work(symbolizer, address, /* has_line= */ false);
    assert_false(fixture_has_problem(symbolizer, NULL));
    ag_symbolizer_free(symbolizer);
}

static void a_stripped_file_gives_addresses_and_a_message(void **state) {
    (void)state;
    const uint64_t address = build("stripped", "");
    fixture_run("strip stripped");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "stripped");
    check_unknown(symbolizer, address, "stripped");
    assert_true(fixture_has_problem(symbolizer, "stripped: "));
    ag_symbolizer_free(symbolizer);
}

static void debug_link_beside_and_in_the_debug_folder(void **state) {
    (void)state;
    const uint64_t address = build("linked", "");
    fixture_run("objcopy --only-keep-debug linked linked.debug && strip linked && "
                "objcopy --add-gnu-debuglink=linked.debug linked");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "linked");
    check_work(symbolizer, address, /* has_line= */ true);
    ag_symbolizer_free(symbolizer);

    fixture_run("mkdir .debug && mv linked.debug .debug/");
    symbolizer = fixture_symbolizer(NULL, "linked");
    check_work(symbolizer, address, /* has_line= */ true);
    ag_symbolizer_free(symbolizer);
    fixture_run("rm -r .debug");
}

static void debug_link_of_another_build_is_refused(void **state) {
    (void)state;
    const uint64_t address = build("other", "");
    fixture_run("gcc -O2 -g -DOTHER -Wl,--build-id=0x12345678 work.c -o wrong && "
                "objcopy --only-keep-debug wrong other.debug && strip other && "
                "objcopy --add-gnu-debuglink=other.debug other");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "other");
    check_unknown(symbolizer, address, "other");
    ag_symbolizer_free(symbolizer);
}

static void without_build_id_the_checksum_decides(void **state) {
    (void)state;
    const uint64_t address = build("checked", "-Wl,--build-id=none");
    fixture_run("objcopy --only-keep-debug checked checked.debug && strip checked && "
                "objcopy --add-gnu-debuglink=checked.debug checked");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "checked");
    check_work(symbolizer, address, /* has_line= */ true);
    assert_true(fixture_has_problem(symbolizer, "checked: no build id was recorded"));
    ag_symbolizer_free(symbolizer);

    fixture_run("printf x >>checked.debug");
    symbolizer = fixture_symbolizer(NULL, "checked");
    check_unknown(symbolizer, address, "checked");
    ag_symbolizer_free(symbolizer);
}

static void debug_dir_by_build_id_even_without_the_program(void **state) {
    (void)state;
    const uint64_t address = build("byid", "-Wl,--build-id=0xabcdef01");
    fixture_run("mkdir -p places/.build-id/ab && objcopy --only-keep-debug byid "
                "places/.build-id/ab/cdef01.debug && strip byid");
    char *places = strdup(fixture_path("places"));
    const char *const folders[] = {"/nonexistent", places};
    const struct ag_symbol_options options = {
        .size = sizeof(options), .debug_dirs = folders, .n_debug_dirs = 2};
    struct ag_symbolizer *symbolizer = fixture_symbolizer(&options, "byid");
    check_work(symbolizer, address, /* has_line= */ true);
    ag_symbolizer_free(symbolizer);

    static const uint8_t id[] = {0xab, 0xcd, 0xef, 0x01};
    symbolizer = ag_symbolizer_new(&options);
    ag_symbolizer_image(symbolizer, 1, "/gone/byid (deleted)", id, sizeof(id), 0, 0, 0);
    check_work(symbolizer, address, /* has_line= */ true);
    assert_false(fixture_has_problem(symbolizer, NULL));
    ag_symbolizer_free(symbolizer);
    free(places);
}

/* The file is removed after the first symbolizer has read it, so the second one can only have its
 * names from the shared files. */
static void symbolizers_that_share_files_open_each_file_once(void **state) {
    (void)state;
    const uint64_t address = build("shared", "-Wl,--build-id=none");
    const struct ag_symbol_options own = {.size = sizeof(own)};
    struct ag_symbol_files *files = ag_symbol_files_new(&own);
    assert_non_null(files);
    const struct ag_symbol_options options = {.size = sizeof(options), .files = files};
    struct ag_symbolizer *first = fixture_symbolizer(&options, "shared");
    struct ag_symbolizer *second = fixture_symbolizer(&options, "shared");
    struct ag_symbolizer *third = fixture_symbolizer(&options, "shared");
    check_work(first, address, /* has_line= */ true);
    fixture_run("rm shared");
    check_work(second, address, /* has_line= */ true);
    const struct ag_symbol_frame *frames, *shared_frames;
    (void)ag_symbolizer_frames(first, 1, address, false, &frames);
    (void)ag_symbolizer_frames(second, 1, address, false, &shared_frames);
    assert_ptr_equal(frames, shared_frames);

    /* each symbolizer lists only the problems of the files that it has used itself */
    assert_true(fixture_has_problem(first, "shared: no build id was recorded"));
    assert_true(fixture_has_problem(second, "shared: no build id was recorded"));
    assert_false(fixture_has_problem(third, NULL));
    ag_symbolizer_free(first);
    check_work(second, address, /* has_line= */ true);
    ag_symbolizer_open_image(third, 1);
    assert_true(fixture_has_problem(third, "shared: no build id was recorded"));
    ag_symbolizer_free(second);
    ag_symbolizer_free(third);
    ag_symbol_files_free(files);
}

static void addresses_without_names_are_reported_by_each_symbolizer(void **state) {
    (void)state;
    const uint64_t address = build("bare", "");
    fixture_run("strip bare");
    const struct ag_symbol_options own = {.size = sizeof(own)};
    struct ag_symbol_files *files = ag_symbol_files_new(&own);
    assert_non_null(files);
    const struct ag_symbol_options options = {.size = sizeof(options), .files = files};
    struct ag_symbolizer *symbolizers[] = {fixture_symbolizer(&options, "bare"),
                                           fixture_symbolizer(&options, "bare")};
    for (size_t i = 0; i < 2; i++) {
        assert_false(fixture_has_problem(symbolizers[i], NULL));
        check_unknown(symbolizers[i], address, "bare");
        assert_true(fixture_has_problem(symbolizers[i], "bare: "));
    }
    ag_symbolizer_free(symbolizers[0]);
    ag_symbolizer_free(symbolizers[1]);
    ag_symbol_files_free(files);
}

static void another_build_id_is_refused_and_reported(void **state) {
    (void)state;
    const uint64_t address = build("replaced", "-Wl,--build-id=0xaaaaaaaa");
    static const uint8_t id[] = {0xbb, 0xbb, 0xbb, 0xbb};
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(NULL);
    ag_symbolizer_image(symbolizer, 1, fixture_path("replaced"), id, sizeof(id), 0, 0, 0);
    check_unknown(symbolizer, address, "replaced");
    assert_true(fixture_has_problem(
        symbolizer, "replaced: build id differs: recorded bbbbbbbb, the file has aaaaaaaa"));
    ag_symbolizer_free(symbolizer);
}

static void a_replaced_file_still_has_its_path(void **state) {
    (void)state;
    const uint64_t address = build("kept", "-Wl,--build-id=0xaaaaaaaa");
    static const uint8_t id[] = {0xaa, 0xaa, 0xaa, 0xaa};
    char path[600];
    snprintf(path, sizeof(path), "%s (deleted)", fixture_path("kept"));
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(NULL);
    ag_symbolizer_image(symbolizer, 1, path, id, sizeof(id), 0, 0, 0);
    check_work(symbolizer, address, /* has_line= */ true);
    ag_symbolizer_free(symbolizer);
}

static void sysroot_comes_before_the_path(void **state) {
    (void)state;
    const uint64_t address = build("inroot", "");
    uint8_t id[64];
    const size_t id_bytes = fixture_build_id("inroot", id);
    fixture_run("mkdir -p root/opt && mv inroot root/opt/");
    const struct ag_symbol_options options = {.size = sizeof(options),
                                              .sysroot = fixture_path("root")};
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(&options);
    ag_symbolizer_image(symbolizer, 1, "/opt/inroot", id, id_bytes, 0, 0, 0);
    check_work(symbolizer, address, /* has_line= */ true);
    ag_symbolizer_free(symbolizer);
}

static void the_bias_and_the_limits_of_the_process_are_used(void **state) {
    (void)state;
    const uint64_t address = build("moved", "-pie");
    uint8_t id[64];
    const size_t id_bytes = fixture_build_id("moved", id);
    const uint64_t bias = 0x7f0012340000;
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(NULL);
    ag_symbolizer_image(symbolizer, 1, fixture_path("moved"), id, id_bytes, bias, bias,
                        bias + 0x10000);
    check_work(symbolizer, address + bias, /* has_line= */ true);
    ag_symbolizer_free(symbolizer);
}

/* The symbolizer must not open a pipe, because open would wait for another process, and must not
 * read a device. */
static void only_regular_files_are_opened(void **state) {
    (void)state;
    fixture_run("mkfifo pipe && mkdir folder");
    static const char *const names[] = {"pipe", "folder"};
    for (size_t i = 0; i < 2; i++) {
        struct ag_symbolizer *symbolizer = ag_symbolizer_new(NULL);
        ag_symbolizer_image(symbolizer, 1, fixture_path(names[i]), NULL, 0, 0, 0, 0);
        check_unknown(symbolizer, 0x1000, names[i]);
        assert_true(fixture_has_problem(symbolizer, "not a regular file"));
        ag_symbolizer_free(symbolizer);
    }
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(NULL);
    ag_symbolizer_image(symbolizer, 1, "/dev/zero", NULL, 0, 0, 0, 0);
    check_unknown(symbolizer, 0x1000, "zero");
    ag_symbolizer_free(symbolizer);
}

static void a_file_that_is_not_elf_is_reported(void **state) {
    (void)state;
    fixture_write("text", "no program\n");
    fixture_write("empty", "");
    static const char *const names[] = {"text", "empty"};
    for (size_t i = 0; i < 2; i++) {
        struct ag_symbolizer *symbolizer = ag_symbolizer_new(NULL);
        ag_symbolizer_image(symbolizer, 1, fixture_path(names[i]), NULL, 0, 0, 0, 0);
        check_unknown(symbolizer, 0x1000, names[i]);
        assert_true(fixture_has_problem(symbolizer, "not a 64-bit ELF file"));
        ag_symbolizer_free(symbolizer);
    }
}

static void the_vdso_of_this_kernel_has_names(void **state) {
    (void)state;
    const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
    if (vdso == NULL) {
        print_message("# SKIP: no vdso\n");
        skip();
    }
    const struct ag_build_id any = {0};
    struct ag_elf_file file;
    assert_int_equal(ag_elf_file_open_vdso(&any, &file), -ENOENT);
    /* The vDSO's build id is in a note of type 3 with the name "GNU". */
    static const uint8_t note[] = {3, 0, 0, 0, 'G', 'N', 'U', 0};
    const uint8_t *found = memmem(vdso, 4096, note, sizeof(note));
    assert_non_null(found);
    uint32_t id_bytes;
    memcpy(&id_bytes, found - 4, sizeof(id_bytes));
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(NULL);
    ag_symbolizer_image(symbolizer, 1, "[vdso]", found + sizeof(note), id_bytes, 0, 0, 0);
    size_t n_known = 0;
    for (uint64_t address = 0; address < 0x2000; address += 16) {
        const struct ag_symbol_frame *frames;
        ag_symbolizer_frames(symbolizer, 1, address, false, &frames);
        n_known += frames->is_known && strstr(frames->function, "vdso") != NULL;
    }
    assert_true(n_known > 0);
    ag_symbolizer_free(symbolizer);
}

static void names_cannot_reach_the_terminal_as_controls(void **state) {
    (void)state;
    fixture_write("control.s", ".text\n.globl main\nmain: ret\n"
                               ".type \"\033\302\233m\", @function\n\"\033\302\233m\": nop\n"
                               ".size \"\033\302\233m\", 1\n.section .note.GNU-stack, \"\"\n");
    fixture_run("gcc control.s -o control");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "control");
    const struct ag_symbol_frame *frames;
    ag_symbolizer_frames(symbolizer, 1, fixture_address("control", "main") + 1, false, &frames);
    assert_string_equal(frames[0].function, "???m");
    ag_symbolizer_free(symbolizer);
}

/* The assembler function inner has no size and lies inside of the function outer. It is found in
 * .symtab and, in a stripped file, in .dynsym. */
static void stripping_keeps_a_second_entry_point(void **state) {
    (void)state;
    fixture_write("entries.s", ".text\n.globl outer, inner\n.type outer, @function\n"
                               ".type inner, @function\nouter: nop\ninner: nop\nret\n"
                               ".size outer, . - outer\n.section .note.GNU-stack, \"\"\n");
    fixture_run("gcc -shared -nostdlib entries.s -o entries");
    const uint64_t address = fixture_address("entries", "inner");
    for (int i = 0; i < 2; i++) {
        struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "entries");
        const struct ag_symbol_frame *frames;
        ag_symbolizer_frames(symbolizer, 1, address, false, &frames);
        assert_string_equal(frames[0].function, "inner");
        ag_symbolizer_free(symbolizer);
        fixture_run("strip -s entries");
    }
}

/* A server that counts its requests and gives each the same answer. */
struct server {
    const char *head;
    const char *file;     /* sent after the head; NULL: nothing */
    size_t endless_bytes; /* number of zero bytes to send after the file */
    int listener, n_calls;
    _Atomic size_t n_sent; /* how many of the zeros were sent */
    pthread_t thread;
};

static void answer(struct server *server, int fd) {
    static char zeros[1 << 16];
    char request[4096];
    (void)!read(fd, request, sizeof(request));
    (void)!send(fd, server->head, strlen(server->head), MSG_NOSIGNAL);
    FILE *file = server->file ? fopen(server->file, "re") : NULL;
    for (size_t n; file && (n = fread(request, 1, sizeof(request), file)) > 0;) {
        (void)!send(fd, request, n, MSG_NOSIGNAL);
    }
    if (file) {
        fclose(file);
    }
    while (server->n_sent < server->endless_bytes &&
           send(fd, zeros, sizeof(zeros), MSG_NOSIGNAL) > 0) {
        server->n_sent += sizeof(zeros);
    }
}

static void *serve(void *context) {
    struct server *server = context;
    for (int fd; (fd = accept(server->listener, NULL, NULL)) >= 0;) {
        server->n_calls++;
        answer(server, fd);
        close(fd);
    }
    return NULL;
}

static void start_server(struct server *server) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(listen(server->listener, 16), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    char url[100];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(address.sin_port));
    setenv("DEBUGINFOD_URLS", url, 1);
    setenv("DEBUGINFOD_CACHE_PATH", fixture_path("cache"), 1);
    setenv("no_proxy", "127.0.0.1", 1);
}

static void stop_server(struct server *server) {
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
}

static void debuginfod_is_asked_only_when_allowed(void **state) {
    (void)state;
    struct server server = {.head = "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n"};
    start_server(&server);
    const uint64_t mark = build("asked", "");
    fixture_run("strip asked");
    for (int allowed = 0; allowed <= 1; allowed++) {
        const struct ag_symbol_options options = {.size = sizeof(options),
                                                  .allow_debuginfod = allowed};
        struct ag_symbolizer *symbolizer = fixture_symbolizer(&options, "asked");
        check_unknown(symbolizer, mark, "asked");
        ag_symbolizer_free(symbolizer);
        if (!allowed) {
            assert_int_equal(server.n_calls, 0);
        }
    }
    stop_server(&server);
    assert_true(server.n_calls > 0);
}

/* The debuginfod server sends a file of another build, a file that is not an ELF file, and a
 * header that announces 16 TiB. The symbolizer must refuse all of them. */
static void what_debuginfod_answers_is_checked(void **state) {
    (void)state;
    const struct ag_symbol_options options = {.size = sizeof(options), .allow_debuginfod = true};
    (void)build("another", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567");
    fixture_write("no_elf", "this is no ELF file\n");
    char another[4096], no_elf[4096];
    snprintf(another, sizeof(another), "%s", fixture_path("another.full"));
    snprintf(no_elf, sizeof(no_elf), "%s", fixture_path("no_elf"));
    static const char head[] = "HTTP/1.0 200 OK\r\n\r\n";
    struct server servers[] = {
        {.head = head, .file = another},
        {.head = head, .file = no_elf},
        {.head = "HTTP/1.0 200 OK\r\nContent-Length: 17592186044416\r\n\r\n",
         .endless_bytes = 1 << 30},
    };
    static const char *const names[] = {"other_answer", "wrong_answer", "huge_answer"};
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        char id[80];
        start_server(&servers[i]);
        snprintf(id, sizeof(id), "-Wl,--build-id=0x%040zu",
                 i + 1); /* another id for each answer, because libdebuginfod caches a missing
                          * file */
        const uint64_t mark = build(names[i], id);
        fixture_run("strip %s", names[i]);
        struct ag_symbolizer *symbolizer = fixture_symbolizer(&options, names[i]);
        check_unknown(symbolizer, mark, names[i]);
        ag_symbolizer_free(symbolizer);
        stop_server(&servers[i]);
        assert_true(servers[i].n_calls > 0);
        assert_true(servers[i].n_sent < 256 << 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbol_table_alone_gives_functions),
        cmocka_unit_test(a_stripped_file_gives_addresses_and_a_message),
        cmocka_unit_test(debug_link_beside_and_in_the_debug_folder),
        cmocka_unit_test(debug_link_of_another_build_is_refused),
        cmocka_unit_test(without_build_id_the_checksum_decides),
        cmocka_unit_test(debug_dir_by_build_id_even_without_the_program),
        cmocka_unit_test(symbolizers_that_share_files_open_each_file_once),
        cmocka_unit_test(addresses_without_names_are_reported_by_each_symbolizer),
        cmocka_unit_test(another_build_id_is_refused_and_reported),
        cmocka_unit_test(a_replaced_file_still_has_its_path),
        cmocka_unit_test(sysroot_comes_before_the_path),
        cmocka_unit_test(the_bias_and_the_limits_of_the_process_are_used),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(a_file_that_is_not_elf_is_reported),
        cmocka_unit_test(the_vdso_of_this_kernel_has_names),
        cmocka_unit_test(names_cannot_reach_the_terminal_as_controls),
        cmocka_unit_test(stripping_keeps_a_second_entry_point),
        cmocka_unit_test(debuginfod_is_asked_only_when_allowed),
        cmocka_unit_test(what_debuginfod_answers_is_checked),
    };
    return cmocka_run_group_tests(tests, fixture_enter, fixture_leave);
}
