// corner_cases.cc: makes unusual stacks (exceptions, signals, coroutines, plugins ...) and
// allocates in many of their frames. At each allocation, judged_malloc.c captures the stack with
// allogram's unwinder and compares it with the stack that libunwind finds.
//
//     corner_cases [rounds, default 100]
//
// The program ends with status 1 if a captured stack differs from that of the unwinder without its
// caches (the plain walk) or from that of libunwind, if a stack that should be complete is
// incomplete, or if a capture is lost. The status is 1, too, if no stack was cut or no plugin was
// reloaded at the same address, because then these cases were not tested.
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "judged_malloc.h"

#define NOINLINE __attribute__((noinline))
#define KEEP(pointer) __asm__ volatile("" ::"r"(pointer) : "memory")

NOINLINE static void allocate(size_t bytes) {
    void *block = malloc(bytes);
    KEEP(block);
    free(block);
}

// ---- exceptions, longjmp ---------------------------------------------------
NOINLINE static size_t throw_below(int depth) {
    const std::string text(40 + depth, 'a');
    if (depth == 0) {
        throw std::runtime_error("thrown with " + text);
    }
    const size_t below = throw_below(depth - 1);
    allocate(text.size());
    return below + 1;
}
NOINLINE static void catch_exception(int depth) {
    try {
        throw_below(depth);
    } catch (const std::exception &error) {
        allocate(strlen(error.what()));
        std::map<int, std::string> ordered;
        for (int i = 0; i < 10; i++) {
            ordered[i] = std::string(30, 'z');
        }
    }
}

static jmp_buf jump_target;
NOINLINE static void jump_from(int depth) {
    volatile int last = 0; // so that the compiler does not know that only longjmp ends the recursion
    char *local = static_cast<char *>(alloca(depth * 8 + 16));
    KEEP(local);
    allocate(depth + 1);
    if (depth == last) {
        longjmp(jump_target, 1);
    }
    jump_from(depth - 1);
    KEEP(local);
}
NOINLINE static void jump_back(int depth) {
    if (setjmp(jump_target) == 0) {
        jump_from(depth);
    } else {
        allocate(77);
    }
}

// ---- frames of unusual shape -----------------------------------------------
NOINLINE static void variable_array(int n) {
    char array[n];
    KEEP(array);
    allocate(n);
    if (n > 32) {
        variable_array(n / 2);
    }
    allocate(n + 1);
    KEEP(array);
}
NOINLINE static void realigned(int n) {
    alignas(64) char line[128];
    char *local = static_cast<char *>(alloca(n + 1));
    KEEP(line);
    KEEP(local);
    allocate(n);
    if (n > 2) {
        realigned(n / 2);
    }
    KEEP(line);
}
NOINLINE static void tail_called(size_t bytes) {
    allocate(bytes);
    KEEP(&tail_called);
}
NOINLINE static void tail_calls(size_t bytes) {
    KEEP(&tail_calls);
    return tail_called(bytes);
}
NOINLINE static void large_frame(int n) {
    volatile char large[200000];
    large[n] = 1;
    allocate(n);
    KEEP(large);
}
NOINLINE static void many_registers(long a, long b, long c, long d, long e, long f, long g,
                                    long h) {
    long x[16];
    for (int i = 0; i < 16; i++) {
        x[i] = a * i + b ^ c + d * i ^ e - f * i ^ g + h;
        allocate(static_cast<size_t>(x[i] & 63) + 1);
    }
    KEEP(x);
}
NOINLINE static void recurse(int depth) {
    volatile char frame[24];
    frame[0] = 1;
    if (depth % 64 == 0) {
        allocate(depth + 1);
    }
    if (depth > 0) {
        recurse(depth - 1);
    }
    KEEP(frame);
}

// ---- signals ---------------------------------------------------------------
static volatile int n_signals;
static void on_signal(int) {
    n_signals = n_signals + 1;
    allocate(33);
    std::vector<int> numbers(10);
    KEEP(numbers.data());
}
NOINLINE static void interrupt_self(int n) {
    allocate(n + 1);
    raise(SIGUSR1);
    allocate(n + 2);
}
static void on_tick(int) {
    n_signals = n_signals + 1;
    judged_capture();
}
NOINLINE static double work(int n) {
    double sum = 0;
    std::string text;
    for (int i = 0; i < n; i++) {
        text = std::to_string(i * 7919 % 1000);
        sum += strtod(text.c_str(), nullptr);
        char line[64];
        snprintf(line, sizeof line, "%d %s %g", i, text.c_str(), sum);
        sum += static_cast<double>(strlen(line));
        if (i % 64 == 0) {
            catch_exception(i / 64 % 5);
            realigned(i % 20);
        }
    }
    return sum;
}
static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(number, &action, nullptr);
}
// A timer interrupts at random instructions: in prologues, epilogues, PLT entries, the unwinder.
NOINLINE static void interrupt_anywhere(int rounds) {
    handle(SIGALRM, on_tick, SA_RESTART | SA_ONSTACK);
    const itimerval every = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, nullptr);
    for (int i = 0; i < rounds; i++) {
        volatile double sum = work(20);
        (void)sum;
    }
    setitimer(ITIMER_REAL, &never, nullptr);
}

// ---- every instruction -----------------------------------------------------
// If the trap flag is set, SIGTRAP is raised after each instruction. So the handler captures stacks
// in prologues and epilogues, PLT entries and the lazy binder, hand-written assembler, and inside
// of allogram's unwinder.
extern "C" void step_begin();
extern "C" void step_end();
__asm__(".pushsection .text\n"
        "step_begin:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\norq $0x100, (%rsp)\n"
        "popfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
        "step_end:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\nandq $~0x100, (%rsp)\n"
        "popfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
        ".popsection");
static int n_steps;
static void on_step(int) {
    n_steps++;
    judged_capture();
}
NOINLINE static int quiet_realigned(int n) {
    alignas(64) int line[32] = {n};
    int *local = static_cast<int *>(alloca(n * sizeof(int) + 16));
    KEEP(line);
    KEEP(local);
    if (n <= 1) {
        step_end(); // gcc's CFI for the epilogue of this frame is wrong between leave and lea
    }
    const int below = n > 1 ? quiet_realigned(n / 2) : 0;
    return below + line[0] + (local != nullptr);
}
NOINLINE static int quiet_registers(int a, int b, int c, int d, int e, int f, int g) {
    int x[3] = {b + g, c * d, e - f}; // so few that gcc does not vectorize, which would realign the frame
    KEEP(x);
    return a > 0 ? quiet_registers(a - 1, x[0], x[1], x[2], g, f, e) + x[1] * x[2] + d : x[0];
}
static int compare_quietly(const void *a, const void *b) {
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}
NOINLINE static void step_through() {
    handle(SIGTRAP, on_step, 0);
    char text[80];
    int numbers[6] = {5, 3, 1, 4, 2, 6};
    step_begin();
    int sum = quiet_realigned(9);
    step_begin();
    sum += quiet_registers(4, 1, 2, 3, 4, 5, 6);
    qsort(numbers, 6, sizeof numbers[0], compare_quietly);
    sum += static_cast<int>(strcspn("first call of strcspn: bound lazily", "x"));
    sum += snprintf(text, sizeof text, "%d %s %.3f", sum, "text", 1.5);
    variable_array(10); // allocates, so that the unwinder is interrupted at each instruction, too
    step_end();
    step_begin();
    try {
        throw sum;
    } catch (int thrown) {
        sum += thrown;
    }
    step_end();
    KEEP(&sum);
}

// ---- callbacks, coroutines, threads ----------------------------------------
static int compare_and_allocate(const void *a, const void *b) {
    allocate(9);
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}
NOINLINE static void sort_with_callback() {
    int numbers[60];
    for (int i = 0; i < 60; i++) {
        numbers[i] = i * 7919 % 211;
    }
    qsort(numbers, 60, sizeof numbers[0], compare_and_allocate);
}

static ucontext_t main_context, coroutine_contexts[3];
static void coroutine(int which) {
    for (int i = 0;; i++) {
        allocate(i + 1);
        variable_array(60 + which);
        swapcontext(&coroutine_contexts[which], &main_context);
        if (i % 7 == which) {
            catch_exception(i % 5);
        }
    }
}
NOINLINE static void run_coroutines(int rounds) {
    static char stacks[3][65536];
    for (int i = 0; i < 3; i++) {
        getcontext(&coroutine_contexts[i]);
        coroutine_contexts[i].uc_stack.ss_sp = stacks[i];
        coroutine_contexts[i].uc_stack.ss_size = sizeof stacks[i];
        makecontext(&coroutine_contexts[i], reinterpret_cast<void (*)()>(coroutine), 1, i);
    }
    for (int i = 0; i < rounds; i++) {
        swapcontext(&main_context, &coroutine_contexts[i % 3]);
        allocate(5);
    }
}

static int n_rounds;
static void *in_thread(void *unused) {
    for (int i = 0; i < n_rounds / 2; i++) {
        catch_exception(i % 10);
        variable_array(100 + i % 50);
        realigned(i % 40);
    }
    return unused;
}
NOINLINE static void run_threads() {
    pthread_t threads[4];
    for (pthread_t &thread : threads) {
        pthread_create(&thread, nullptr, in_thread, nullptr);
    }
    for (pthread_t &thread : threads) {
        pthread_join(thread, nullptr);
    }
}
NOINLINE static void run_child() {
    const pid_t child = fork();
    if (child == 0) {
        catch_exception(7);
        _exit(judged_counts.differ_from_plain + judged_counts.differ_from_judge +
                  judged_counts.lost >
              0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) {
        judged_counts.differ_from_judge++;
    }
}

// ---- loaded and unloaded code ----------------------------------------------
static void call_back(int n) {
    allocate(static_cast<size_t>(n));
}
NOINLINE static void load_and_unload(int rounds, int *ret_same_address) {
    void *before = nullptr;
    for (int i = 0; i < rounds; i++) {
        void *handle = dlopen(i % 2 != 0 ? PLUGIN_WIDE : PLUGIN_NARROW, RTLD_LAZY);
        if (handle == nullptr) {
            fprintf(stderr, "corner_cases: %s\n", dlerror());
            exit(1);
        }
        void *function = dlsym(handle, "changing_plugin");
        Dl_info info;
        dladdr(function, &info);
        *ret_same_address += info.dli_fbase == before;
        before = info.dli_fbase;
        for (int k = 0; k < 5; k++) {
            reinterpret_cast<void (*)(void (*)(int), int)>(function)(call_back, 20);
        }
        judged_dlclose(handle);
    }
}

// ---- before and after main --------------------------------------------------
struct AroundMain {
    AroundMain() {
        allocate(1);
    }
    ~AroundMain() {
        allocate(2);
    }
};
static AroundMain around_main;
static thread_local std::string *of_thread = new std::string(100, 'x');

int main(int argc, char **argv) {
    n_rounds = argc > 1 ? atoi(argv[1]) : 100;
    handle(SIGUSR1, on_signal, 0);
    atexit([] { allocate(3); });
    allocate(of_thread->size());
    for (int i = 0; i < n_rounds; i++) {
        catch_exception(i % 20);
        jump_back(i % 30);
        variable_array(100 + i % 100);
        realigned(i % 50);
        tail_calls(i + 1);
        large_frame(i);
        many_registers(i, 2, 3, 4, 5, 6, 7, i);
        interrupt_self(i);
    }
    recurse(3000);
    sort_with_callback();
    run_coroutines(n_rounds);
    const std::regex pattern("(a|b)*c+[x-z]{2}");
    KEEP(std::regex_match(std::string("ababaccxy"), pattern) ? &pattern : nullptr);
    std::function<int(int)> nested = [&](int n) {
        return allocate(n + 1), n == 0 ? 0 : nested(n - 1) + 1;
    };
    KEEP(nested(20) ? &nested : nullptr);

    stack_t other;
    memset(&other, 0, sizeof other);
    other.ss_size = 65536;
    other.ss_sp = malloc(other.ss_size);
    sigaltstack(&other, nullptr);
    handle(SIGUSR1, on_signal, SA_ONSTACK);
    for (int i = 0; i < n_rounds; i++) {
        interrupt_self(i);
    }
    run_threads();
    run_child();
    int same_address = 0;
    load_and_unload(20, &same_address);
    interrupt_anywhere(n_rounds);
    step_through();

    const struct judged_counts &c = judged_counts;
    printf(
        "%lu captures, %lu differ from the plain walk, %lu from libunwind, %lu incomplete, %lu cut, %lu lost, "
        "%lu in the last steps of a throw, %lu not judged; %d signals, %d steps, %d reloads at the same address\n",
        c.captures, c.differ_from_plain, c.differ_from_judge, c.incomplete, c.cut, c.lost,
        c.in_a_throw, c.not_judged, n_signals, n_steps, same_address);
    return c.differ_from_plain + c.differ_from_judge + c.incomplete + c.lost > 0 || c.cut == 0 ||
           same_address == 0;
}
