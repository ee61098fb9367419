/* What only later releases' runtimes have, so that this one seems to be one of them. */
void caml_atomic_load_field(void);

void caml_atomic_load_field(void) {
}
