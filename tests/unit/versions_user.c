/* versions_user.c: for test_symbol_versions.c: a library that needs the functions of
 * versions_fixture.c, each with its version. */
int first(void);
int second(void);
int sum_of_both(void);

int sum_of_both(void) {
    return first() + second();
}
