/* numbered_plugin.c: a plugin with 40 allocating functions. Function I of plugin NUMBER allocates
 * blocks of 1000 * NUMBER + I bytes, so that the size shows where a block comes from. The plugins
 * differ in size in memory, so that plugins loaded in turn overlap each other's addresses. */
#include <stdlib.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define SITE(i)                                                                           \
    __attribute__((noinline, noclone)) void *JOIN(JOIN(plugin_, NUMBER), _site##i)(void); \
    void *JOIN(JOIN(plugin_, NUMBER), _site##i)(void) {                                   \
        char *block = malloc(1000 * NUMBER + i);                                          \
        *(volatile char *)block = 1;                                                      \
        return block;                                                                     \
    }
#define FOUR(each, i) each(i##0) each(i##1) each(i##2) each(i##3)
#define ALL(each) \
    FOUR(each, 1) \
    FOUR(each, 2) \
    FOUR(each, 3) \
    FOUR(each, 4) \
    FOUR(each, 5) FOUR(each, 6) FOUR(each, 7) FOUR(each, 8) FOUR(each, 9) FOUR(each, 10)
ALL(SITE)
#define CALL(i) free(JOIN(JOIN(plugin_, NUMBER), _site##i)());

const char filler[NUMBER * 24000 + 1] = {1};
void run(void);
void run_one(void);
void run(void) {
    ALL(CALL)
}
void run_one(void) {
    CALL(10)
}
