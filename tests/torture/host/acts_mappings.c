/* acts_mappings.c: an act (a step of torture programs, see nodes.h) that uses memory without
 * malloc: mmap, mremap, mprotect, MAP_FIXED, shmat. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "nodes.h"
#include "sites.h"

/* mappings(seed, n): n random changes of mappings. The result depends on the contents of the
 * mappings. */
uint64_t act_mappings(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        const size_t n = PAGE_BYTES * (2 + dice_below(&dice, 30));
        char *memory = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            complain("mmap failed");
            return 0;
        }
        memset(memory, 5, n);
        switch (dice_below(&dice, 6)) {
        case 0: {
            char *moved = mremap(memory, n, 2 * n, MREMAP_MAYMOVE);
            memory = moved != MAP_FAILED ? moved : memory;
            result = mix(result, (uint64_t)memory[n - 1] << 8 | (uint64_t)memory[n]);
            munmap(memory, 2 * n);
            break;
        }
        case 1:
            mprotect(memory + PAGE_BYTES, PAGE_BYTES, PROT_NONE);
            result = mix(result, (uint64_t)memory[0]);
            munmap(memory + PAGE_BYTES, PAGE_BYTES);
            munmap(memory, PAGE_BYTES);
            munmap(memory + 2 * PAGE_BYTES, n - 2 * PAGE_BYTES);
            break;
        case 2:
            mmap(memory + PAGE_BYTES, PAGE_BYTES, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            result = mix(result, (uint64_t)memory[PAGE_BYTES] + (uint64_t)memory[0]);
            munmap(memory, n);
            break;
        case 3:
            madvise(memory, n, MADV_DONTNEED);
            result = mix(result, (uint64_t)memory[n / 2]);
            munmap(memory, n);
            break;
        case 4: {
            munmap(memory, n);
            const int id = shmget(IPC_PRIVATE, PAGE_BYTES, 0600);
            char *shared = id >= 0 ? shmat(id, NULL, 0) : (void *)-1;
            if (shared != (void *)-1) {
                shared[0] = 1;
                shmdt(shared);
            }
            if (id >= 0) {
                shmctl(id, IPC_RMID, NULL);
            }
            result = mix(result, shared != (void *)-1);
            break;
        }
        default:
            munmap(memory, n);
            break;
        }
        block_free(block_make((unsigned)dice_below(&dice, 10), 55));
    }
    return result;
}
