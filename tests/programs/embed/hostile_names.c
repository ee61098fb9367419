/* hostile_names.c: five functions that allocate, with names of 64 characters, each under a label of
 * the same name; and five functions of the same names that are counted with allogram.h, each called
 * by the one before. tests/page replaces these names in a copy of the program by names of the same
 * length that contain markup, script or terminal commands, which no assembler accepts in a symbol.
 * The name of the thread contains markup in this file already. */
#include <allogram/allogram.h>
#include <sys/prctl.h>

#include "../say.h"

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

static const char *const names[] = {
    "hostile_name_1_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "hostile_name_2_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "hostile_name_3_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "hostile_name_4_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "hostile_name_5_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
};

static void label(int i) {
    (void)allogram_label_set(allogram_label_new(names[i]));
}

static void count(void) {
    const struct allogram_counters_options options = {
        .size = sizeof(options), .runtime = "vm", .process = names[0], .clock = ALLOGRAM_NO_CLOCK};
    allogram_counters *set = allogram_counters_new(&options);
    for (int i = 0; i < 5; i++) {
        const struct allogram_function_options function = {
            .size = sizeof(function), .name = names[i], .runtime = "vm"};
        allogram_enter(set, allogram_function_new(&function));
        allogram_count_words(set, 10u << (4 * i)); /* words grow and times do not, so in the page's
                                                    * plot the last functions lie far from the line
                                                    * of the constant quotient */
        allogram_count_time(set, 10000);
    }
    allogram_leave_to(set, 0);
}

int main(void) {
    prctl(PR_SET_NAME, "<b>\033[1mx</b>");
    label(0);
    hostile_name_1_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    label(1);
    hostile_name_2_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    label(2);
    hostile_name_3_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    label(3);
    hostile_name_4_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    label(4);
    hostile_name_5_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx();
    count();
    return 0;
}
