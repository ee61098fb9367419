/* node_cookie.c: finds the cookie of an Erlang node, the secret that both ends of a connection
 * have, for node_link.c. */
#include "node_cookie.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"

/* Relative to the user's home. The first file that exists is used, as the node itself does. */
static const char *const own_files[] = {".erlang.cookie", ".config/erlang/.erlang.cookie"};

/* Reads the first line of a file. 0 or negative errno. */
static int read_cookie(const char *path, char ret_cookie[AG_NODE_COOKIE_BYTES]) {
    char text[AG_NODE_COOKIE_BYTES];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    const int error = errno;
    (void)close(fd); /* nothing was written */
    if (n < 0) {
        return -error;
    }
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (text[0] == '\0') {
        return -ENODATA;
    }
    memcpy(ret_cookie, text, sizeof(text));
    return 0;
}

static int fail_cookie(const char *path, int error, char ret_text[AG_LINK_TEXT_BYTES]) {
    (void)snprintf(ret_text, AG_LINK_TEXT_BYTES, "cookie file %.400s: %s", path,
                   error == -ENODATA ? "the file is empty" : strerror(-error));
    return error;
}

int ag_node_cookie_find(const struct ag_link_place *place, char ret_cookie[AG_NODE_COOKIE_BYTES],
                        char ret_text[AG_LINK_TEXT_BYTES]) {
    const char *text = place->variable("ALLOGRAM_COOKIE"), *home = place->variable("HOME");
    const char *file = place->option;
    if (!file && text && text[0]) {
        if (strlen(text) >= AG_NODE_COOKIE_BYTES) {
            (void)snprintf(ret_text, AG_LINK_TEXT_BYTES, "ALLOGRAM_COOKIE: the cookie is too long");
            return -ENAMETOOLONG;
        }
        (void)snprintf(ret_cookie, AG_NODE_COOKIE_BYTES, "%s", text);
        return 0;
    }
    if (!file) {
        const char *named = place->variable("ALLOGRAM_COOKIE_FILE");
        file = named && named[0] ? named : NULL;
    }
    if (file) {
        const int r = read_cookie(file, ret_cookie);
        return r < 0 ? fail_cookie(file, r, ret_text) : 0;
    }
    for (size_t i = 0; home && i < AG_ARRAY_SIZE(own_files); i++) {
        char path[4096];
        (void)snprintf(path, sizeof(path), "%s/%s", home, own_files[i]);
        const int r = read_cookie(path, ret_cookie);
        if (r != -ENOENT) {
            return r < 0 ? fail_cookie(path, r, ret_text) : 0;
        }
    }
    (void)snprintf(ret_text, AG_LINK_TEXT_BYTES,
                   "no cookie: your home directory has no %s; use --%s=FILE or set ALLOGRAM_COOKIE",
                   own_files[0], AG_NODE_COOKIE_OPTION);
    return -ENOENT;
}
