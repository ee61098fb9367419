/* later_stubs.c: defines a symbol that only later runtimes have, so that the program's runtime
 * looks like a later release. */
void caml_atomic_load_field(void);

void caml_atomic_load_field(void) {
}
