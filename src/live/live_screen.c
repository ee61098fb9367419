/* live_screen.c: the screen of --live, in the style of top(1) and less(1): a line with the views, a
 * line with the sort and the filter, the text of a report, and a line with the keys.
 *
 * 1. Content. The screen computes no numbers: live_report.c takes a trace of the recording so far
 *    and executes `allogram report` on it, with the width of the terminal. The screen shows the
 *    text of the report, with its styles. When a key changes the view, the last trace is read
 *    again.
 *
 * 2. Cost. The larger the recording is, the longer a refresh takes. The cost of a refresh is the
 *    CPU time of the trace and of the report. If the former is unknown, the time until the trace is
 *    taken counts instead (the writer and its child work meanwhile). After a refresh the screen
 *    waits at least REST_FACTOR times this cost, so refreshes use some 3 % of a CPU at most. The
 *    shortest interval is a second.
 *
 * 3. The terminal. The process of the screen ignores the signals of the terminal, because the
 *    command receives them, too, and decides what they mean. The command sends messages through a
 *    socket (enum ag_live_message), and closes the socket to end the screen. The screen installs no
 *    signal handlers. If a signal kills the screen, the command restores the terminal. */
#include "live/live_screen.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "live/live_report.h"
#include "text/utf8.h"

enum {
    FIRST_MS = 250, /* until the first trace is taken: most programs have allocated by then */
    LEAST_INTERVAL_MS = 1000,
    REST_FACTOR = 30,
    OUTPUT_INTERVAL_MS = 250, /* how often the program's output is read while it is shown */
    FOREGROUND_INTERVAL_MS = 500,
    ESCAPE_DELAY_MS = 50, /* timeout for the rest of a key's escape sequence; enough for a
                           * connection by ssh */
    HEAD_ROWS = 2,        /* views; sort and filter */
    FILTER_BYTES = 256,
    OUTPUT_BYTES = 64 << 10, /* the end of the program's output that is shown */
    KEY_ESCAPE = 27,
    COLOR_WARNING = 1,
};

struct view {
    const char *name; /* of --view */
    bool has_sort;    /* --sort applies */
};
static const char output_name[] = "output"; /* not a report: the program's output */
static const struct view recording_views[] = {
    {"summary", true},  {"sites", true}, {"tree", true},  {"timeline", false}, {"gc", false},
    {"threads", false}, {"types", true}, {"leaks", true}, {output_name, false}};
/* What an observation can see: CPU time, collections, and growth of memory if it was asked for. */
static const struct view observation_views[] = {{"summary", true},   {"functions", false},
                                                {"sites", true},     {"tree", true},
                                                {"timeline", false}, {"gc", false}};

static const char *const metrics[] = {NULL, /* the default of the view */
                                      "allocated_bytes",
                                      "allocated_blocks",
                                      "in_use_bytes",
                                      "in_use_blocks",
                                      "peak_bytes",
                                      "freed_bytes",
                                      "temporary_blocks"};

static const char help_text[] =
    "\x1b[1mkeys\x1b[0m\n"
    "  1 ... 9, Tab      the views: those of allogram report --view, and the program's output\n"
    "  s, S              sort by the next, or the previous, metric\n"
    "  /                 filter: show only stacks with a function that matches a regular\n"
    "                    expression; an empty one removes the filter\n"
    "  b                 tree: from the allocating functions to their callers, and back\n"
    "  space             pause: the numbers no longer change; the program and the recording\n"
    "                    go on\n"
    "  r                 refresh now\n"
    "  up, down, PageUp, PageDown, Home, End\n"
    "                    scroll\n"
    "  Ctrl-L            draw the screen again\n"
    "  q                 close the screen; the program and the recording go on, an\n"
    "                    observation ends\n"
    "  Ctrl-C, Ctrl-Z    as without --live\n";

struct screen {
    const struct ag_live_show *show;
    const struct view *views;
    size_t n_views;
    size_t view, metric, top; /* top: the first line that is shown */
    bool is_bottom_up, is_paused, is_help, is_over;
    bool is_away;      /* the terminal was given back, because the command is stopped */
    bool wants_return; /* the command was continued: the screen returns when it is in the
                        * foreground */
    bool is_dirty;     /* the screen has to be drawn */
    bool has_trace;    /* a trace was taken */
    bool wants_report; /* the trace, or the user's choice, has changed since the last report
                        * began */
    bool is_failed;    /* the last report was an error message */
    bool is_typing;    /* the user types a filter */
    uint64_t next_ns;  /* when to take the next trace */
    uint64_t take_ns;  /* cost of the last trace; 0: it was already counted */
    char filter[FILTER_BYTES], typed[FILTER_BYTES];
    struct ag_live_child taker, reporter;
    char *text; /* what is shown */
    size_t length;
};

static const struct view *view_of(const struct screen *screen) {
    return &screen->views[screen->view];
}

static bool is_output(const struct screen *screen) {
    return view_of(screen)->name == output_name;
}

static bool is_tree(const struct screen *screen) {
    return strcmp(view_of(screen)->name, "tree") == 0;
}

static void choose_views(struct screen *screen) {
    const size_t n_recording = AG_ARRAY_SIZE(recording_views);
    screen->views = screen->show->observes ? observation_views : recording_views;
    screen->n_views = screen->show->observes         ? AG_ARRAY_SIZE(observation_views)
                      : screen->show->output_fd >= 0 ? n_recording
                                                     : n_recording - 1; /* without the output */
}

/* ---- drawing ---- */

/* Applies the escape sequence of a style at TEXT, and returns its end. NULL: there is none. Reports
 * have bold, dim and bold yellow; any other style, as in the program's output, is shown as normal
 * text. */
static const char *apply_style(const char *text) {
    if (text[0] != '\x1b' || text[1] != '[') {
        return NULL;
    }
    const char *end = text + 2 + strspn(text + 2, "0123456789;");
    if (*end != 'm') {
        return NULL;
    }
    const size_t length = (size_t)(end - text - 2);
    if (length == 4 && memcmp(text + 2, "1;33", 4) == 0) {
        (void)attrset(A_BOLD | COLOR_PAIR(COLOR_WARNING));
    } else if (length == 1 && text[2] == '1') {
        (void)attrset(A_BOLD);
    } else if (length == 1 && text[2] == '2') {
        (void)attrset(A_DIM);
    } else {
        (void)attrset(A_NORMAL);
    }
    return end + 1;
}

/* Writes a line of TEXT, up to its line feed or end, from column COLUMN of ROW to the last
 * column. */
static void draw_line(int row, int column, const char *text) {
    (void)move(row, column);
    while (*text != '\0' && *text != '\n') {
        const char *behind_style = apply_style(text);
        if (behind_style) {
            text = behind_style;
            continue;
        }
        char bytes[AG_UTF8_BYTES];
        uint32_t c = ag_utf8_next(&text);
        if (c == '\r') {
            continue;
        }
        c = c == '\t' ? ' ' : ag_utf8_is_control(c) ? AG_UTF8_REPLACEMENT : c;
        const int width = (int)ag_utf8_columns(c);
        if (column + width > COLS) {
            break;
        }
        (void)addnstr(bytes, (int)ag_utf8_put(bytes, c)); /* fails in the last cell of the screen */
        column += width;
    }
    (void)attrset(A_NORMAL);
}

static const char *next_line(const char *text) {
    const char *feed = strchr(text, '\n');
    return feed ? feed + 1 : text + strlen(text);
}

static size_t lines_of(const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text = next_line(text)) {
        n++;
    }
    return n;
}

static size_t rows_of_text(void) {
    return LINES > HEAD_ROWS + 1 ? (size_t)(LINES - HEAD_ROWS - 1) : 1;
}

static const char *text_of(const struct screen *screen) {
    if (screen->is_help) {
        return help_text;
    }
    if (screen->text) {
        return screen->text;
    }
    return is_output(screen)        ? "the program has written nothing to this terminal\n"
           : screen->show->observes ? "waiting for the first samples\n"
                                    : "waiting for the first allocations of the program\n";
}

/* Scrolls by COUNT lines, as far as there is text. */
static void scroll_by(struct screen *screen, long count) {
    const size_t lines = lines_of(text_of(screen)), rows = rows_of_text();
    const size_t most = lines > rows ? lines - rows : 0;
    const long top = (long)screen->top + count;
    screen->top = top < 0 ? 0 : (size_t)top > most ? most : (size_t)top;
    screen->is_dirty = true;
}

static void draw_views(const struct screen *screen) {
    int column = 0;
    for (size_t i = 0; i < screen->n_views; i++) {
        char label[32];
        const int length = snprintf(label, sizeof(label), "%zu %s", i + 1, screen->views[i].name);
        if (column + length <= COLS) {
            (void)attrset(i == screen->view ? A_REVERSE : A_NORMAL);
            (void)mvaddstr(0, column, label);
        }
        column += length + 1;
    }
    (void)attrset(A_NORMAL);
}

static void draw_state(const struct screen *screen) {
    char line[FILTER_BYTES + 256];
    const char *metric = metrics[screen->metric];
    (void)snprintf(line, sizeof(line), "%s   sort: %s   filter: %s%s%s",
                   screen->is_paused ? "\x1b[1mpaused\x1b[0m" : "live  ",
                   !view_of(screen)->has_sort ? "-"
                   : metric                   ? metric
                                              : "default",
                   screen->filter[0] ? screen->filter : "none",
                   screen->is_bottom_up && is_tree(screen) ? "   bottom-up" : "",
                   screen->is_failed ? "   \x1b[1;33mnot possible\x1b[0m" : "");
    draw_line(1, 0, line);
}

static void draw(struct screen *screen) {
    const char *text = text_of(screen);
    (void)erase();
    draw_views(screen);
    draw_state(screen);
    for (size_t i = 0; i < screen->top; i++) {
        text = next_line(text);
    }
    for (int row = HEAD_ROWS; row < LINES - 1 && *text != '\0'; row++) {
        draw_line(row, 0, text);
        text = next_line(text);
    }
    if (screen->is_typing) {
        char line[FILTER_BYTES + 64];
        (void)snprintf(line, sizeof(line), "filter, a regular expression: %s", screen->typed);
        draw_line(LINES - 1, 0, line);
    } else {
        draw_line(LINES - 1, 0,
                  screen->is_help ? "\x1b[2many key: back\x1b[0m"
                                  : "\x1b[2mq close  space pause  s sort  / filter  b bottom-up  r "
                                    "refresh  ? help\x1b[0m");
    }
    (void)curs_set(screen->is_typing); /* fails if the terminal cannot hide its cursor */
    (void)refresh();
    screen->is_dirty = false;
}

/* ---- content ---- */

/* Replaces the text that is shown by LENGTH bytes at TEXT, which the screen then owns. */
static void show_text(struct screen *screen, char *text, size_t length) {
    free(screen->text);
    screen->text = text;
    screen->length = length;
    scroll_by(screen, 0);
}

static char *copy_text(const char *text, size_t length) {
    char *copy = malloc(length + 1);
    for (size_t i = 0; copy && i < length; i++) {
        copy[i] = text[i] != '\0' ? text[i] : ' ';
    }
    if (copy) {
        copy[length] = '\0';
    }
    return copy;
}

/* The trace of the recording so far ends as if the program had been detached at that moment. So the
 * heading of a report has the word "detached", which this function replaces by "running". */
static void correct_heading(char *text) {
    static const char detached[] = ", detached", running[] = ", running ";
    for (int i = 0; i < 5 && *text != '\0'; i++) {
        char *end = strchr(text, '\n');
        char *at = strstr(text, detached);
        if (end && at && at < end) {
            memcpy(at, running, sizeof(running) - 1);
            return;
        }
        text = end ? end + 1 : text + strlen(text);
    }
}

/* Shows the end of the program's output, from the beginning of a line. */
static void show_output(struct screen *screen) {
    struct stat status;
    char buffer[OUTPUT_BYTES];
    if (screen->show->output_fd < 0 || fstat(screen->show->output_fd, &status) < 0) {
        return;
    }
    const off_t from = status.st_size > OUTPUT_BYTES ? status.st_size - OUTPUT_BYTES : 0;
    const ssize_t n = pread(screen->show->output_fd, buffer, sizeof(buffer), from);
    if (n <= 0) {
        return;
    }
    const char *feed = from > 0 ? memchr(buffer, '\n', (size_t)n) : NULL;
    const size_t skipped = feed ? (size_t)(feed + 1 - buffer) : 0;
    char *text = copy_text(buffer + skipped, (size_t)n - skipped);
    const bool is_changed = text && (!screen->text || strcmp(text, screen->text) != 0);
    if (is_changed) {
        show_text(screen, text, (size_t)n - skipped);
        scroll_by(screen, (long)lines_of(text)); /* the newest line is visible */
    } else {
        free(text);
    }
}

static void start_report(struct screen *screen) {
    char view[32], sort[48], focus[FILTER_BYTES + 16];
    const struct view *row = view_of(screen);
    const char *no_color = getenv("NO_COLOR");
    struct ag_live_question question = {.columns = (unsigned)COLS};
    size_t n = 0;
    (void)snprintf(view, sizeof(view), "--view=%s", row->name);
    question.arguments[n++] = view;
    question.arguments[n++] = no_color && *no_color ? "--color=never" : "--color=always";
    if (row->has_sort && metrics[screen->metric]) {
        (void)snprintf(sort, sizeof(sort), "--sort=%s", metrics[screen->metric]);
        question.arguments[n++] = sort;
    }
    if (screen->filter[0]) {
        (void)snprintf(focus, sizeof(focus), "--focus=%s", screen->filter);
        question.arguments[n++] = focus;
    }
    if (screen->is_bottom_up && is_tree(screen)) {
        question.arguments[n++] = "--bottom-up";
    }
    ag_live_child_kill(&screen->reporter); /* the running report is for an earlier view, metric or
                                            * filter */
    screen->wants_report = ag_live_child_start(&screen->reporter, screen->show, &question) < 0;
}

static void end_report(struct screen *screen, enum ag_live_outcome outcome) {
    char *text = outcome == AG_LIVE_NO_TRACE || is_output(screen)
                     ? NULL
                     : copy_text(screen->reporter.text, screen->reporter.used);
    if (text) {
        correct_heading(text);
        screen->is_failed = outcome == AG_LIVE_REFUSED;
        show_text(screen, text, strlen(text));
    }
    if (screen->take_ns > 0) {
        const uint64_t rest_ns = (screen->take_ns + screen->reporter.cpu_ns) * REST_FACTOR;
        const uint64_t next_ns = ag_monotonic_ns() + rest_ns;
        screen->next_ns = next_ns > screen->next_ns ? next_ns : screen->next_ns;
        screen->take_ns = 0;
    }
}

static void start_taking(struct screen *screen, uint64_t now_ns) {
    screen->next_ns = now_ns + LEAST_INTERVAL_MS * UINT64_C(1000000);
    /* after a failure, this is tried again a second later */
    (void)ag_live_child_start(&screen->taker, screen->show, NULL);
}

static void end_taking(struct screen *screen, enum ag_live_outcome outcome) {
    if (outcome == AG_LIVE_DONE) {
        screen->has_trace = screen->wants_report = true;
        const uint64_t cost_ns = screen->show->take_cost_ns(screen->show->context);
        screen->take_ns = cost_ns > 0 ? cost_ns : screen->taker.took_ns;
    }
}

/* ---- keys ---- */

static void change_question(struct screen *screen) {
    screen->wants_report = screen->is_dirty = true;
    screen->top = 0;
}

static void choose_view(struct screen *screen, size_t view) {
    if (view == screen->view) {
        return;
    }
    screen->view = view;
    screen->is_failed = false;
    show_text(screen, NULL, 0);
    change_question(screen);
}

static void type_filter(struct screen *screen, int key) {
    const size_t length = strlen(screen->typed);
    screen->is_dirty = true;
    if (key == '\n' || key == '\r' || key == KEY_ENTER) {
        memcpy(screen->filter, screen->typed, sizeof(screen->filter));
        screen->is_typing = false;
        change_question(screen);
    } else if (key == KEY_ESCAPE) {
        screen->is_typing = false;
    } else if (key == KEY_BACKSPACE || key == '\b' || key == 127) {
        size_t end = length > 0 ? length - 1 : 0;
        while (end > 0 && ((unsigned char)screen->typed[end] & 0xc0) == 0x80) {
            end--; /* the first byte of the character */
        }
        screen->typed[end] = '\0';
    } else if (key >= ' ' && key < 256 && length + 1 < sizeof(screen->typed)) {
        screen->typed[length] = (char)key;
        screen->typed[length + 1] = '\0';
    }
}

static void take_key(struct screen *screen, int key) {
    const size_t n_metrics = AG_ARRAY_SIZE(metrics);
    const long page = (long)rows_of_text() - 1;
    if (screen->is_typing) {
        type_filter(screen, key);
        return;
    }
    if (screen->is_help && key != KEY_RESIZE) {
        screen->is_help = false;
        scroll_by(screen, -(long)screen->top);
        return;
    }
    if (key >= '1' && key < '1' + (int)screen->n_views) {
        choose_view(screen, (size_t)(key - '1'));
        return;
    }
    switch (key) {
    case '\t':
        choose_view(screen, (screen->view + 1) % screen->n_views);
        break;
    case KEY_BTAB:
        choose_view(screen, (screen->view + screen->n_views - 1) % screen->n_views);
        break;
    case 's':
    case 'S':
        screen->metric = (screen->metric + (key == 's' ? 1 : n_metrics - 1)) % n_metrics;
        change_question(screen);
        break;
    case 'b':
        screen->is_bottom_up = !screen->is_bottom_up;
        change_question(screen);
        break;
    case '/':
        memcpy(screen->typed, screen->filter, sizeof(screen->typed));
        screen->is_typing = screen->is_dirty = true;
        break;
    case ' ':
    case 'p':
        screen->is_paused = !screen->is_paused;
        if (screen->is_paused && screen->has_trace) {
            ag_live_child_kill(&screen->taker); /* its trace would change the numbers once more */
        }
        screen->is_dirty = true;
        break;
    case 'r':
        screen->next_ns = 0;
        screen->is_paused = false;
        break;
    case '?':
    case 'h':
        screen->is_help = true;
        scroll_by(screen, -(long)screen->top);
        break;
    case KEY_UP:
    case 'k':
        scroll_by(screen, -1);
        break;
    case KEY_DOWN:
    case 'j':
        scroll_by(screen, 1);
        break;
    case KEY_PPAGE:
        scroll_by(screen, -page);
        break;
    case KEY_NPAGE:
        scroll_by(screen, page);
        break;
    case KEY_HOME:
    case 'g':
        scroll_by(screen, -(long)screen->top);
        break;
    case KEY_END:
    case 'G':
        scroll_by(screen, (long)lines_of(text_of(screen)));
        break;
    case 'L' & 0x1f:
        (void)clearok(curscr, TRUE);
        screen->is_dirty = true;
        break;
    case 'q':
        screen->is_over = true;
        break;
    default:
        break;
    }
}

/* ---- the terminal ---- */

static bool is_foreground(const struct screen *screen) {
    const pid_t group = tcgetpgrp(screen->show->terminal_fd);
    return group < 0 /* not the terminal of this session */ || group == getpgrp();
}

static void follow_size(struct screen *screen) {
    struct winsize size = {0};
    if (ioctl(screen->show->terminal_fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 &&
        size.ws_col > 0 && (size.ws_row != LINES || size.ws_col != COLS)) {
        (void)resizeterm(size.ws_row, size.ws_col); /* fails for lack of memory */
        (void)clearok(curscr, TRUE);
        screen->is_dirty = screen->wants_report = true;
        scroll_by(screen, 0);
    }
}

static void take_message(struct screen *screen) {
    char message = 0;
    const ssize_t n = read(screen->show->control_fd, &message, 1);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        screen->is_over = true;
    } else if (n == 1 && message == AG_LIVE_LEAVE) {
        if (!screen->is_away) {
            (void)endwin();
        }
        screen->is_away = true;
        screen->wants_return = false;
        message = AG_LIVE_LEFT;
        /* if the command has ended, the next read finds the end of the socket */
        (void)!write(screen->show->control_fd, &message, 1);
    } else if (n == 1 && message == AG_LIVE_RETURN) {
        screen->wants_return = true;
    }
}

static void return_to_terminal(struct screen *screen) {
    if (screen->wants_return && is_foreground(screen)) {
        screen->is_away = screen->wants_return = false;
        screen->is_dirty = true;
        (void)clearok(curscr, TRUE);
        follow_size(screen);
    }
}

static int timeout_of(const struct screen *screen, uint64_t now_ns) {
    if (screen->is_away) {
        return screen->wants_return ? FOREGROUND_INTERVAL_MS : -1;
    }
    const uint64_t left_ms =
        screen->next_ns > now_ns ? (screen->next_ns - now_ns) / 1000000 + 1 : 0;
    const bool is_busy = screen->is_paused || screen->taker.pid != 0 || screen->reporter.pid != 0;
    const int rest_ms = is_busy || left_ms > LEAST_INTERVAL_MS ? LEAST_INTERVAL_MS : (int)left_ms;
    return is_output(screen) && rest_ms > OUTPUT_INTERVAL_MS ? OUTPUT_INTERVAL_MS : rest_ms;
}

static void wait_and_handle(struct screen *screen) {
    enum ag_live_outcome outcome;
    struct pollfd polled[] = {
        {.fd = screen->show->control_fd, .events = POLLIN},
        {.fd = screen->is_away ? -1 : screen->show->terminal_fd, .events = POLLIN},
        {.fd = screen->taker.pid != 0 ? screen->taker.fd : -1, .events = POLLIN},
        {.fd = screen->reporter.pid != 0 ? screen->reporter.fd : -1, .events = POLLIN}};
    if (poll(polled, AG_ARRAY_SIZE(polled), timeout_of(screen, ag_monotonic_ns())) < 0) {
        return; /* EINTR: for example, the size of the terminal has changed */
    }
    if (polled[2].revents && ag_live_child_read(&screen->taker, &outcome)) {
        end_taking(screen, outcome);
    }
    if (polled[3].revents && ag_live_child_read(&screen->reporter, &outcome)) {
        end_report(screen, outcome);
    }
    if (polled[1].revents & POLLIN) {
        for (int key; (key = getch()) != ERR;) {
            take_key(screen, key);
        }
    }
    screen->is_over |= (polled[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    if (polled[0].revents) {
        take_message(screen);
    }
}

static void run_screen(struct screen *screen) {
    while (!screen->is_over) {
        const uint64_t now_ns = ag_monotonic_ns();
        if (screen->is_away) {
            return_to_terminal(screen);
        } else {
            follow_size(screen);
        }
        if (screen->is_away) {
            wait_and_handle(screen);
            continue;
        }
        if (is_output(screen)) {
            show_output(screen);
        } else if (screen->wants_report && screen->has_trace) {
            start_report(screen);
        }
        /* no trace is taken while a report is made: otherwise a slow report would never be
         * completed */
        const bool is_busy = screen->taker.pid != 0 || screen->reporter.pid != 0;
        if (!screen->is_paused && !is_busy && now_ns >= screen->next_ns) {
            start_taking(screen, now_ns);
        }
        if (screen->is_dirty) {
            draw(screen);
        }
        wait_and_handle(screen);
    }
    ag_live_child_kill(&screen->taker);
    ag_live_child_kill(&screen->reporter);
}

void ag_live_show(const struct ag_live_show *show) {
    struct screen screen = {.show = show,
                            .is_dirty = true,
                            .next_ns = ag_monotonic_ns() + FIRST_MS * UINT64_C(1000000)};
    choose_views(&screen);
    /* reports are UTF-8, whatever the locale of the user is */
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        (void)setlocale(LC_CTYPE, "C.UTF-8"); /* if it fails, other characters than ASCII are shown
                                               * wrong */
    }
    FILE *output = fdopen(show->terminal_fd, "w");
    FILE *input = output ? fdopen(dup(show->terminal_fd), "r") : NULL;
    SCREEN *curses = input ? newterm(NULL, output, input) : NULL;
    if (!curses) {
        return;
    }
    (void)set_escdelay(ESCAPE_DELAY_MS); /* each of these functions fails only without a screen */
    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)idlok(stdscr, TRUE);
    if (has_colors() && start_color() == OK && use_default_colors() == OK) {
        (void)init_pair(COLOR_WARNING, COLOR_YELLOW, -1);
    }
    run_screen(&screen);
    if (!screen.is_away) {
        (void)endwin();
    }
    free(screen.text);
    free(screen.taker.text);
    free(screen.reporter.text);
    delscreen(curses);
}
