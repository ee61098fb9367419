/* acts_threads.c: acts (steps of torture programs; an act may contain inner acts, see nodes.h)
 * with threads: on stacks of several kinds, with blocks that one thread allocates and another
 * frees, and with several ways to end. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nodes.h"
#include "sites.h"

enum { THREADS = 8 };

struct work {
    pthread_t thread;
    const struct node *node;
    uint64_t seed, result;
    void *stack;
    size_t stack_bytes;
    int ending;
};

/* The destructor of a thread's data allocates, in up to three rounds of destructors. */
static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;

static void at_thread_end(void *block) {
    const size_t n = ((uint64_t *)block)[1];
    block_free(block);
    if (n < 103) {
        pthread_setspecific(end_key, block_make(17, n + 1));
    }
}

static void make_end_key(void) {
    pthread_key_create(&end_key, at_thread_end);
}

static void *live(void *argument) {
    struct work *work = argument;
    work->result = node_run_children(work->node, work->seed);
    if (work->ending == 1) {
        pthread_exit(NULL);
    } else if (work->ending == 2) {
        pthread_once(&end_once, make_end_key);
        pthread_setspecific(end_key, block_make(17, 100));
    }
    return NULL;
}

/* Chooses the stack of a thread by its kind: 0 is the default, 1 a stack of random size, 2 a
 * mapping of the program with a guard page, 3 a block of posix_memalign. */
static void choose_stack(struct work *work, struct dice *dice, pthread_attr_t *attributes,
                         int kind) {
    const size_t n = (256u << 10) + PAGE_BYTES * dice_below(dice, 64);
    work->stack = NULL;
    if (kind == 1) {
        pthread_attr_setstacksize(attributes, n);
        pthread_attr_setguardsize(attributes, PAGE_BYTES * dice_below(dice, 3));
    } else if (kind == 2) {
        work->stack_bytes = n + PAGE_BYTES;
        work->stack = mmap(NULL, n + PAGE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        mprotect(work->stack, PAGE_BYTES, PROT_NONE);
        pthread_attr_setstack(attributes, (char *)work->stack + PAGE_BYTES, n);
    } else if (kind == 3) {
        work->stack_bytes = 0;
        if (posix_memalign(&work->stack, PAGE_BYTES, n) == 0) {
            pthread_attr_setstack(attributes, work->stack, n);
        }
    }
}

/* threads(seed, n, stack kind, ending, ...): each of n threads runs the inner acts. If ending is 1,
 * the threads end by pthread_exit; if it is 2, the destructors of their thread-specific data
 * allocate. */
uint64_t act_threads(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    const int n = (int)(node->numbers[1] % (THREADS + 1));
    struct work works[THREADS];
    uint64_t result = 0;
    for (int i = 0; i < n; i++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        works[i] = (struct work){
            .node = node, .seed = mix(seed, (uint64_t)i), .ending = (int)node->numbers[3]};
        choose_stack(&works[i], &dice, &attributes, (int)node->numbers[2]);
        if (pthread_create(&works[i].thread, &attributes, live, &works[i]) != 0) {
            complain("a thread could not be made");
            _Exit(94);
        }
        pthread_attr_destroy(&attributes);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(works[i].thread, NULL);
        result = mix(result, works[i].result);
        if (node->numbers[2] == 2) {
            munmap(works[i].stack, works[i].stack_bytes);
        } else {
            free(works[i].stack);
        }
    }
    return result;
}

/* ---- blocks that one thread allocates and another frees ---- */

enum { QUEUE = 32 };
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *blocks[QUEUE];
    unsigned n_in, n_out;
};

struct passing {
    pthread_t thread;
    struct queue *in, *out;
    int64_t n;
    struct dice dice;
    uint64_t result;
};

static void queue_put(struct queue *queue, void *block) {
    pthread_mutex_lock(&queue->lock);
    while (queue->n_in - queue->n_out == QUEUE) {
        pthread_cond_wait(&queue->changed, &queue->lock);
    }
    queue->blocks[queue->n_in++ % QUEUE] = block;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static void *queue_get(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->n_in == queue->n_out) {
        pthread_cond_wait(&queue->changed, &queue->lock);
    }
    void *block = queue->blocks[queue->n_out++ % QUEUE];
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return block;
}

static void *pass(void *argument) {
    struct passing *passing = argument;
    for (int64_t i = 0; i < passing->n; i++) {
        queue_put(passing->out, block_make((unsigned)dice_below(&passing->dice, 10),
                                           32 + dice_below(&passing->dice, 300)));
        void *block = queue_get(passing->in);
        passing->result = mix(passing->result, ((uint64_t *)block)[1]);
        if (i & 1) {
            block = block_resize(block, 700);
        }
        block_free(block);
    }
    return NULL;
}

/* passing(seed, n): starts two threads. Each frees n blocks that the other thread has allocated. */
uint64_t act_passing(const struct node *node, uint64_t seed) {
    struct queue queues[2] = {
        {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
        {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}};
    struct passing sides[2];
    for (int i = 0; i < 2; i++) {
        sides[i] = (struct passing){.in = &queues[i],
                                    .out = &queues[1 - i],
                                    .n = node->numbers[1],
                                    .dice = dice_of(node, seed + (uint64_t)i)};
        if (pthread_create(&sides[i].thread, NULL, pass, &sides[i]) != 0) {
            complain("a thread could not be made");
            _Exit(94);
        }
    }
    pthread_join(sides[0].thread, NULL);
    pthread_join(sides[1].thread, NULL);
    return mix(sides[0].result, sides[1].result);
}

/* ---- cancellation ---- */

static void free_at_cancel(void *block) {
    block_free(block);
    block_free(block_make(18, 90));
}

static _Atomic int n_loops;

static void *allocate_until_cancelled(void *argument) {
    (void)argument;
    void *block = block_make(18, 1000);
    pthread_cleanup_push(free_at_cancel, block);
    for (;;) {
        block_free(block_make(5, 333));
        n_loops++;
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void *compute_until_cancelled(void *argument) {
    (void)argument;
    int old;
    block_free(block_make(6, 333)); /* so that the recorder knows this thread */
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (;;) {
        n_loops++;
    }
    return NULL;
}

static void *sleep_until_cancelled(void *argument) {
    (void)argument;
    void *block = block_make(18, 1001);
    pthread_cleanup_push(free_at_cancel, block);
    n_loops++;
    for (;;) {
        pause();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

/* cancel(seed, kind): cancels a thread at pthread_testcancel (kind 0), asynchronously (kind 1), or
 * in a system call (kind 2). */
uint64_t act_cancel(const struct node *node, uint64_t seed) {
    static void *(*const lives[])(void *) = {allocate_until_cancelled, compute_until_cancelled,
                                             sleep_until_cancelled};
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER; /* for the count of loops */
    pthread_t thread;
    void *result = NULL;
    (void)seed;
    pthread_mutex_lock(&one_at_a_time);
    n_loops = 0;
    if (pthread_create(&thread, NULL, lives[node->numbers[1] % 3], NULL) != 0) {
        complain("a thread could not be made");
        _Exit(94);
    }
    while (n_loops == 0) {
        usleep(100);
    }
    pthread_cancel(thread);
    pthread_join(thread, &result);
    pthread_mutex_unlock(&one_at_a_time);
    return result == PTHREAD_CANCELED;
}

/* exiting(seed, n): starts n short-lived threads, one after the other. Some of the threads are
 * detached. A thread takes a lock of the thread library while it ends, so the act waits until the
 * detached threads have ended: otherwise the next act may create a child by _Fork in which this
 * lock is held forever. */
static void *come_and_go(void *argument) {
    block_free(block_make(7, 60));
    if (argument != NULL) {
        atomic_store((_Atomic pid_t *)argument, gettid());
    }
    return NULL;
}

uint64_t act_exiting(const struct node *node, uint64_t seed) {
    enum { DETACHED_MOST = 10 }; /* the generator chooses at most 10 threads */
    struct dice dice = dice_of(node, seed);
    _Atomic pid_t detached[DETACHED_MOST];
    int n_detached = 0;
    for (int64_t i = 0; i < node->numbers[1] && n_detached < DETACHED_MOST; i++) {
        pthread_t thread;
        const int is_detached = (int)dice_below(&dice, 2);
        atomic_init(&detached[n_detached], 0);
        if (pthread_create(&thread, NULL, come_and_go,
                           is_detached ? &detached[n_detached] : NULL) != 0) {
            complain("a thread could not be made");
            _Exit(94);
        }
        if (is_detached) {
            pthread_detach(thread);
            n_detached++;
        } else {
            pthread_join(thread, NULL);
        }
    }
    for (int i = 0; i < n_detached; i++) {
        pid_t tid;
        while ((tid = atomic_load(&detached[i])) == 0 || tgkill(getpid(), tid, 0) == 0) {
            usleep(50);
        }
    }
    return (uint64_t)n_detached;
}
