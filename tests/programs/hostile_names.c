/* hostile_names.c: five functions that allocate, with names of 64 characters. tests/page puts other
 * names of that length into a copy of the program: markup, script, terminal commands, which no
 * assembler takes. The thread has such a name by itself. */
#include <sys/prctl.h>

#include "say.h"

#define ALLOCATES(name)                                 \
    __attribute__((noinline, noclone)) void name(void); \
    void name(void) {                                   \
        void *block = malloc(100);                      \
        OPAQUE(block);                                  \
    }
ALLOCATES(hostile_name_1_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx)
ALLOCATES(hostile_name_2_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx)
ALLOCATES(hostile_name_3_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx)
ALLOCATES(hostile_name_4_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx)
ALLOCATES(hostile_name_5_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx)

int main(void) {
    prctl(PR_SET_NAME, "<b>\033[1mx</b>");
    hostile_name_1_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    hostile_name_2_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    hostile_name_3_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    hostile_name_4_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    hostile_name_5_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    return 0;
}
