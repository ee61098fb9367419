/* compiler.h: macros for compiler-specific code: GNU attributes, hints, visibility.
 *
 * Feature tests belong here too, so that other files need no #if. */
#ifndef AG_COMPILER_H
#define AG_COMPILER_H

#define AG_LIKELY(x) __builtin_expect(!!(x), 1)
#define AG_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define AG_COLD __attribute__((cold, noinline))
#define AG_NOINLINE __attribute__((noinline))
#define AG_FAST static inline __attribute__((always_inline, unused))
/* Makes the compiler compute the value once, here, and not again at each use. */
#define AG_KEEP_IN_REGISTER(x) __asm__("" : "+r"(x))
#define AG_PREFETCH(address) __builtin_prefetch(address)
#define AG_TRAILING_ZEROS(x) ((unsigned)__builtin_ctzll(x)) /* x must not be 0 */
#define AG_BITS(x) (64 - (unsigned)__builtin_clzll(x))      /* 1 + log2(x); x must not be 0 */
#define AG_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))

/* The agent, the library that is loaded into the profiled process, is compiled with
 * -fvisibility=hidden: only symbols with AG_EXPORT are exported. */
#define AG_EXPORT __attribute__((visibility("default")))

/* For the declaration of a variable or function of the agent: the attribute says that it is defined
 * in the same shared library, so the compiler does not load its address from the GOT. */
#define AG_HIDDEN __attribute__((visibility("hidden")))

#define AG_CACHE_LINE 64
#define AG_CACHE_ALIGNED __attribute__((aligned(AG_CACHE_LINE)))

#define AG_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
