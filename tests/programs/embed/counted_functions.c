/* counted_functions.c: functions that are counted with allogram.h, for the viewer's plot of memory
 * against time. Six functions allocate 10 words in a microsecond, slow allocates one word in ten
 * microseconds, hungry a thousand words in one microsecond. main_loop calls these functions; it
 * allocates nothing itself and takes no time. */
#include <allogram/allogram.h>
#include <stdint.h>
#include <stdio.h>

static allogram_counters *set;

static void call(const char *name, uint64_t words, uint64_t us) {
    const struct allogram_function_options function = {
        .size = sizeof(function), .name = name, .runtime = "vm"};
    allogram_enter(set, allogram_function_new(&function));
    allogram_count_words(set, words);
    allogram_count_time(set, us * 1000);
    allogram_leave(set);
}

int main(void) {
    const struct allogram_counters_options options = {
        .size = sizeof(options), .runtime = "vm", .process = "loop", .clock = ALLOGRAM_NO_CLOCK};
    const struct allogram_function_options loop = {
        .size = sizeof(loop), .name = "main_loop", .runtime = "vm"};
    set = allogram_counters_new(&options);
    allogram_enter(set, allogram_function_new(&loop));
    for (unsigned i = 1; i <= 6; i++) {
        char name[32];
        snprintf(name, sizeof(name), "steady_%u", i);
        call(name, UINT64_C(10000) << i, UINT64_C(1000) << i);
    }
    call("slow", 8000, 80000);
    call("hungry", 2000000, 2000);
    allogram_leave(set);
    return 0;
}
