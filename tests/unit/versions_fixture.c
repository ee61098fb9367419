/* versions_fixture.c: for test_symbol_versions.c: a library that defines functions with symbol
 * versions. versions_user.c needs them. */
int first(void);
int second(void);

int first(void) {
    return 1;
}

int second(void) {
    return 2;
}
