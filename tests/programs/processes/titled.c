/* titled.c: changes the names of its processes while they run. The first process sets the name of
 * its main thread (prctl). A child overwrites its arguments, as setproctitle does. A second child
 * changes nothing. Each lives long enough to be seen; the children free no block. */
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../say.h"

enum { SEEN_US = 400000 }; /* the writer looks every 50 ms */

static void be_seen(void) {
    usleep(SEEN_US);
}

int main(int argc, char **argv) {
    static const char title[] = "titled: worker 1";
    void *block = malloc(100);
    OPAQUE(block);
    const pid_t worker = fork();
    if (worker == 0) {
        char *end = argv[argc - 1] + strlen(argv[argc - 1]);
        memset(argv[0], 0, (size_t)(end - argv[0]));
        strncpy(argv[0], title, (size_t)(end - argv[0]));
        be_seen();
        _exit(0);
    }
    const pid_t plain = fork();
    if (plain == 0) {
        be_seen();
        _exit(0);
    }
    prctl(PR_SET_NAME, "dispatcher");
    be_seen();
    waitpid(worker, NULL, 0);
    waitpid(plain, NULL, 0);
    say("done\n");
    return 0;
}
