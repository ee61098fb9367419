/* page.c: writes the text of reports: styles, line breaks, and shortening of long names. See
 * page.h.
 *
 * A control character in a name, or a byte that is not UTF-8, is written as U+FFFD. So the reader
 * sees that a character was there, and the terminal does not interpret it. */
#include "report/page.h"

#include <stdarg.h>
#include <string.h>

#include "text/utf8.h"

enum { LINE_BYTES = 4096 }; /* size of a formatted string; only crafted traces exceed it */

static const char *escape_of(enum ag_style style) {
    switch (style) {
    case AG_STYLE_PLAIN:
        break;
    case AG_STYLE_DIM:
        return "\x1b[2m";
    case AG_STYLE_BRIGHT:
        return "\x1b[1m";
    case AG_STYLE_WARNING:
        return "\x1b[1;33m";
    }
    return "";
}

static uint32_t next_clean(const char **text) {
    uint32_t c = ag_utf8_next(text);
    return c != 0 && ag_utf8_is_control(c) ? AG_UTF8_REPLACEMENT : c;
}

void ag_page_end_line(struct ag_page *page) {
    putc('\n', page->out);
    page->taken = 0;
}

/* Writes the text from TEXT to END. The style is reset before the line ends, so that it does not
 * apply to later output on the terminal. */
static void write_clean(struct ag_page *page, enum ag_style style, const char *text,
                        const char *end) {
    bool is_styled = page->has_colour && style != AG_STYLE_PLAIN && text < end;
    if (is_styled) {
        fputs(escape_of(style), page->out);
    }
    while (text < end) {
        char bytes[AG_UTF8_BYTES];
        const uint32_t c = next_clean(&text);
        fwrite(bytes, 1, ag_utf8_put(bytes, c), page->out);
        page->taken += ag_utf8_columns(c);
    }
    if (is_styled) {
        fputs("\x1b[0m", page->out);
    }
}

void ag_page_text(struct ag_page *page, enum ag_style style, const char *text) {
    const size_t length = strlen(text);
    const bool ends_line = length > 0 && text[length - 1] == '\n';
    write_clean(page, style, text, text + length - (ends_line ? 1 : 0));
    if (ends_line) {
        ag_page_end_line(page);
    }
}

/* Fills in FORMAT. If the result is cut, the line feed at the end of FORMAT remains. */
static void fill_in(char line[LINE_BYTES], const char *format, va_list arguments) {
    const size_t format_length = strlen(format);
    const bool ends_line = format_length > 0 && format[format_length - 1] == '\n';
    if (vsnprintf(line, LINE_BYTES, format, arguments) >= LINE_BYTES && ends_line) {
        line[LINE_BYTES - 2] = '\n';
    }
}

void ag_page_print(struct ag_page *page, enum ag_style style, const char *format, ...) {
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    fill_in(line, format, arguments);
    va_end(arguments);
    ag_page_text(page, style, line);
}

/* Returns the end of the first word of TEXT. The word may have blanks before it. */
static const char *word_end(const char *text) {
    const size_t blanks = strspn(text, " ");
    return text + blanks + strcspn(text + blanks, " ");
}

static size_t columns_between(const char *text, const char *end) {
    size_t columns = 0;
    while (text < end) {
        columns += ag_utf8_columns(next_clean(&text));
    }
    return columns;
}

void ag_page_wrap(struct ag_page *page, enum ag_style style, size_t indent, const char *text) {
    while (*text != '\0') {
        const char *end = text; /* the end of the words that fit on this line */
        size_t taken = page->taken;
        do {
            const char *next = word_end(end);
            const size_t columns = columns_between(end, next);
            if (taken > indent && taken + columns > page->columns) {
                break;
            }
            taken += columns;
            end = next;
        } while (*end != '\0');
        write_clean(page, style, text, end);
        text = end;
        if (*text != '\0') {
            ag_page_end_line(page);
            ag_page_spaces(page, indent);
            text += strspn(text, " ");
        }
    }
}

void ag_page_prose(struct ag_page *page, enum ag_style style, const char *format, ...) {
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    fill_in(line, format, arguments);
    va_end(arguments);
    ag_page_wrap(page, style, strspn(line, " ") + 2, line);
    ag_page_end_line(page);
}

void ag_page_spaces(struct ag_page *page, size_t count) {
    count = count < AG_PAGE_MOST_COLUMNS ? count : AG_PAGE_MOST_COLUMNS;
    fprintf(page->out, "%*s", (int)count, "");
    page->taken += count;
}

size_t ag_page_columns_of(const char *text) {
    size_t columns = 0;
    for (uint32_t c; (c = next_clean(&text)) != 0;) {
        columns += ag_utf8_columns(c);
    }
    return columns;
}

size_t ag_page_fit(struct ag_fitted *fitted, const char *text, size_t columns) {
    static const char ellipsis[] = "…";
    columns = columns < AG_PAGE_MOST_COLUMNS ? columns : AG_PAGE_MOST_COLUMNS;
    size_t all = ag_page_columns_of(text);
    /* A long text loses its middle. More is kept of its beginning than of its end, because names
     * differ more often in their beginning. */
    size_t head = all <= columns ? all : columns * 3 / 5;
    size_t tail_starts = all <= columns ? all : all - (columns - head - (columns > 0));
    size_t passed = 0, taken = 0, used = 0;
    bool has_ellipsis = false;
    for (uint32_t c; (c = next_clean(&text)) != 0;) {
        size_t width = ag_utf8_columns(c);
        bool is_kept = passed + width <= head || passed >= tail_starts;
        passed += width;
        if (is_kept &&
            /* many combining marks, which take no column, could fill the buffer */
            used + AG_UTF8_BYTES < AG_FITTED_BYTES) {
            used += ag_utf8_put(fitted->text + used, c);
            taken += width;
        } else if (!has_ellipsis && columns > 0 && used + sizeof ellipsis < AG_FITTED_BYTES) {
            memcpy(fitted->text + used, ellipsis, sizeof ellipsis - 1);
            used += sizeof ellipsis - 1;
            taken++;
            has_ellipsis = true;
        }
    }
    fitted->text[used] = '\0';
    return taken;
}
