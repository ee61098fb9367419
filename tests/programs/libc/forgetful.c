/* forgetful.c: a program with one leak, for tests of what a new user does. It reads records, keeps
 * an index of them, and cleans up at the end. But the program reads each of the 1,000 records
 * twice, and never frees the name of the second copy.
 *
 * @allocated_blocks 1 + 2000 * 2
 * @allocated_bytes  1000 * 8 + 2000 * (24 + 32)
 * @freed_blocks     1 + 2000 * 2 - 1000
 * @in_use_blocks    1000
 * @in_use_bytes     1000 * 32
 * @site             copy_name 2000 2000 * 32
 */
#include <string.h>

#include "../say.h"

enum { RECORDS = 1000, NAME_BYTES = 32 };

struct record {
    char *name;
    int number, seen;
};

static struct record **records;

__attribute__((noinline)) static char *copy_name(int number) {
    char *name = malloc(NAME_BYTES); /* the leaking line */
    OPAQUE(name);
    snprintf(name, NAME_BYTES, "record %d", number);
    return name;
}

__attribute__((noinline)) static struct record *read_record(int number) {
    struct record *record = malloc(24);
    OPAQUE(record);
    *record = (struct record){.name = copy_name(number), .number = number};
    return record;
}

__attribute__((noinline)) static void end_record(struct record *record) {
    if (record->seen == 0) { /* the fault: nothing frees the name of the second copy, for
                              * which `seen` is above 0 */
        free(record->name);
    }
    free(record);
}

int main(void) {
    records = malloc(RECORDS * sizeof(*records));
    OPAQUE(records);
    for (int i = 0; i < RECORDS; i++) {
        records[i] = read_record(i);
    }
    for (int i = 0; i < RECORDS; i++) {
        struct record *again = read_record(i);
        again->seen = 1;
        end_record(again);
    }
    for (int i = 0; i < RECORDS; i++) {
        end_record(records[i]);
    }
    free(records);
    say("%d records\n", RECORDS);
    return 0;
}
