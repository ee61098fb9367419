/* symbol_fixture.h: a temporary folder in which tests write files, compile small programs and
 * run commands; and functions that find addresses, lines and build ids of these programs, and
 * open a program in a symbolizer. */
#ifndef AG_SYMBOL_FIXTURE_H
#define AG_SYMBOL_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "symbol/symbol.h"

/* Setup and teardown of a cmocka group: fixture_enter makes an empty folder and enters it,
 * fixture_leave removes it. */
int fixture_enter(void **state);
int fixture_leave(void **state);

/* Runs a shell command in the folder; the test fails when the command does. */
__attribute__((format(printf, 1, 2))) void fixture_run(const char *format, ...);
bool fixture_has(const char *program);
void fixture_write(const char *name, const char *text);
/* The absolute path of NAME in the folder; valid until the next call. */
const char *fixture_path(const char *name);
/* The address of a symbol of FILE as nm prints it; the test fails when there is none. */
uint64_t fixture_address(const char *file, const char *symbol);
/* The number of the line in a source text that contains MARK. */
uint32_t fixture_line(const char *text, const char *mark);
/* Reads the build id of FILE with readelf. Returns the length of the build id, or 0 if FILE has
 * none. */
size_t fixture_build_id(const char *file, uint8_t ret_bytes[64]);

/* A symbolizer with FILE as its image (program or library) number 1, at bias 0 (the addresses are
 * those of the file), with its build id. */
struct ag_symbolizer *fixture_symbolizer(const struct ag_symbol_options *options, const char *file);
/* Whether one of the symbolizer's lines about problems contains TEXT; if TEXT is NULL, whether
 * there is any line. */
bool fixture_has_problem(const struct ag_symbolizer *symbolizer, const char *text);

#endif
