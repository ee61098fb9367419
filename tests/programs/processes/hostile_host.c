/* hostile_host.c: between two batches of 500 blocks of 12 bytes (the first batch is freed at the
 * end) the program changes its own process in a way that could break a recorder; the argument says
 * how. Right after the change the program allocates and frees 20000 blocks of 10 bytes, which are
 * more events than fit into the recorder's current buffer. The arguments:
 *
 *   descriptors  closes every descriptor from 3 on
 *   standard     closes every descriptor and opens /dev/null as 0 to 19
 *   folder       changes the current folder to /
 *   root         makes an empty folder its root (needs root)
 *   file-size    sets RLIMIT_FSIZE to 0
 *   space        sets RLIMIT_AS to 64 MiB more than the address space that the process has
 *   data         sets RLIMIT_DATA to 1 MiB more than the data that the process has
 *   user         sets the user and the group to nobody, 65534 (needs root)
 *   umask        sets the umask to 0777
 *   environment  clears the environment
 *   nofile       sets RLIMIT_NOFILE to 3
 *   filter       sets a seccomp filter that refuses (EPERM) all system calls but those that malloc
 *                and this program need
 *
 * @allocated_blocks 21000
 * @allocated_bytes  212000
 * @freed_blocks     20500
 * @peak_bytes       12000
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "../say.h"

static void limit(int what, rlim_t to) {
    struct rlimit limit = {to, to};
    if (setrlimit(what, &limit) != 0) {
        say("setrlimit: %d\n", errno);
    }
}

/* Returns column COLUMN of /proc/self/statm, which counts pages, in bytes. */
static rlim_t statm_bytes(int column) {
    char text[256] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) {
        return 0;
    }
    close(fd);
    char *at = text;
    unsigned long value = 0;
    for (int i = 0; i <= column; i++) {
        value = strtoul(at, &at, 10);
    }
    return value * 4096;
}

static void refuse_system_calls(void) {
    static const unsigned allowed[] = {SYS_read,   SYS_write, SYS_brk,  SYS_mmap,
                                       SYS_munmap, SYS_futex, SYS_exit, SYS_exit_group};
    enum { N_ALLOWED = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[N_ALLOWED * 2 + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    struct sock_filter *at = filter + 1;
    for (int i = 0; i < N_ALLOWED; i++) {
        *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    const struct sock_fprog program = {(unsigned short)(at - filter), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        say("seccomp: %d\n", errno);
    }
}

static void do_harm(const char *what) {
    if (strcmp(what, "descriptors") == 0 || strcmp(what, "standard") == 0) {
        for (int fd = strcmp(what, "standard") == 0 ? 0 : 3; fd < 1024; fd++) {
            close(fd);
        }
        if (strcmp(what, "standard") == 0) {
            for (int fd = 0; fd < 20;
                 fd++) { /* a recorder that uses a closed descriptor writes into these */
                open("/dev/null", O_RDWR);
            }
        }
    } else if (strcmp(what, "folder") == 0) {
        say("chdir: %d\n", chdir("/"));
    } else if (strcmp(what, "root") == 0) {
        char folder[] = "/tmp/empty-root-XXXXXX";
        if (mkdtemp(folder) == NULL || chroot(folder) != 0 || chdir("/") != 0) {
            say("chroot: %d\n", errno);
        }
    } else if (strcmp(what, "file-size") == 0) {
        limit(RLIMIT_FSIZE, 0);
    } else if (strcmp(what, "space") == 0) {
        limit(RLIMIT_AS, statm_bytes(0) + (64 << 20));
    } else if (strcmp(what, "data") == 0) {
        limit(RLIMIT_DATA, statm_bytes(5) + (1 << 20));
    } else if (strcmp(what, "nofile") == 0) {
        limit(RLIMIT_NOFILE, 3);
    } else if (strcmp(what, "user") == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            say("setuid: %d\n", errno);
        }
    } else if (strcmp(what, "umask") == 0) {
        umask(0777);
    } else if (strcmp(what, "environment") == 0) {
        clearenv();
    } else if (strcmp(what, "filter") == 0) {
        refuse_system_calls();
    }
}

int main(int n_arguments, char **arguments) {
    static void *blocks[1000];
    for (int i = 0; i < 500; i++) {
        blocks[i] = malloc(12);
    }
    do_harm(n_arguments > 1 ? arguments[1] : "nothing");
    for (int i = 0; i < 20000; i++) {
        void *block = malloc(10);
        OPAQUE(block);
        free(block);
    }
    for (int i = 500; i < 1000; i++) {
        blocks[i] = malloc(12);
    }
    for (int i = 0; i < 500; i++) {
        free(blocks[i]);
    }
    say("unharmed\n");
    return 0;
}
