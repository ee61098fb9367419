/* symbol_fixture.h: small programs, compiled by the test, whose addresses are known from labels in
 * them. */
#ifndef AG_SYMBOL_FIXTURE_H
#define AG_SYMBOL_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "symbol/symbol.h"

/* An empty folder of this test, entered; removed at the end. For cmocka's group setup and teardown.
 */
int fixture_enter(void **state);
int fixture_leave(void **state);

/* Runs a shell command in the folder, which has to succeed. */
__attribute__((format(printf, 1, 2))) void fixture_run(const char *format, ...);
bool fixture_has(const char *program);
void fixture_write(const char *name, const char *text);
/* NAME in the folder, absolute; valid until the next call. */
const char *fixture_path(const char *name);
/* Of a symbol of FILE as nm shows it; fails the test when there is none. */
uint64_t fixture_address(const char *file, const char *symbol);
/* The line of a source text on which MARK stands. */
uint32_t fixture_line(const char *text, const char *mark);
/* Reads the build id of FILE with readelf; returns its length, 0: none. */
size_t fixture_build_id(const char *file, uint8_t ret_bytes[64]);

/* A symbolizer with FILE as its image 1, at bias 0, with its build id. */
struct ag_symbolizer *fixture_symbolizer(const struct ag_symbol_options *options, const char *file);
/* Whether some problem line contains TEXT; TEXT of NULL: whether there is any. */
bool fixture_has_problem(const struct ag_symbolizer *symbolizer, const char *text);

#endif
