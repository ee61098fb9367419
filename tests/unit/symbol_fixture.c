/* symbol_fixture.c: builds programs for the tests of symbols; see symbol_fixture.h. Expected
 * addresses and build ids come from binutils. */
#include "symbol_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/allogram-symbol-XXXXXX";

int fixture_enter(void **state) {
    (void)state;
    return mkdtemp(folder) != NULL ? chdir(folder) : -1;
}

int fixture_leave(void **state) {
    (void)state;
    fixture_run("rm -rf %s", folder);
    return 0;
}

void fixture_run(const char *format, ...) {
    char *command;
    va_list arguments;
    va_start(arguments, format);
    assert_true(vasprintf(&command, format, arguments) >= 0);
    va_end(arguments);
    const int status = system(command);
    if (status != 0) {
        fail_msg("status %d of: %s", status, command);
    }
    free(command);
}

bool fixture_has(const char *program) {
    char command[256];
    snprintf(command, sizeof(command), "%s --version >/dev/null 2>&1", program);
    return system(command) == 0;
}

void fixture_write(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

const char *fixture_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* Reads the first line that COMMAND prints, cut to the buffer; empty when it prints none. */
static void first_line(const char *command, char *ret_line, int capacity) {
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    if (fgets(ret_line, capacity, pipe) == NULL) {
        ret_line[0] = '\0';
    }
    pclose(pipe);
}

uint64_t fixture_address(const char *file, const char *symbol) {
    char command[512], line[256];
    snprintf(command, sizeof(command), "nm %s | grep ' %s$'", file, symbol);
    first_line(command, line, sizeof(line));
    const uint64_t address = strtoull(line, NULL, 16);
    if (address == 0) {
        fail_msg("no symbol %s in %s", symbol, file);
    }
    return address;
}

uint32_t fixture_line(const char *text, const char *mark) {
    const char *end = strstr(text, mark);
    assert_non_null(end);
    uint32_t line = 1;
    for (const char *at = text; at < end; at++) {
        line += *at == '\n';
    }
    return line;
}

size_t fixture_build_id(const char *file, uint8_t ret_bytes[64]) {
    char command[512], line[256];
    snprintf(command, sizeof(command), "readelf -n %s | sed -n 's/.*Build ID: //p'", file);
    first_line(command, line, sizeof(line));
    size_t n = 0;
    unsigned byte;
    for (; n < 64 && sscanf(line + 2 * n, "%2x", &byte) == 1; n++) {
        ret_bytes[n] = (uint8_t)byte;
    }
    return n;
}

struct ag_symbolizer *fixture_symbolizer(const struct ag_symbol_options *options,
                                         const char *file) {
    uint8_t id[64];
    const size_t id_bytes = fixture_build_id(file, id);
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(options);
    assert_non_null(symbolizer);
    assert_int_equal(ag_symbolizer_image(symbolizer, 1, fixture_path(file), id, id_bytes, 0, 0, 0),
                     0);
    return symbolizer;
}

bool fixture_has_problem(const struct ag_symbolizer *symbolizer, const char *text) {
    const char *const *lines;
    const size_t n = ag_symbolizer_problems(symbolizer, &lines);
    for (size_t i = 0; i < n; i++) {
        if (text == NULL || strstr(lines[i], text) != NULL) {
            return true;
        }
    }
    return false;
}
