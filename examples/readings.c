/* readings.c: mean temperatures of weather stations, with an unnecessary peak of memory: the
 * program of docs/tutorials/peak.md.
 *
 * 100,000 lines of text become 100,000 readings, which are grouped by station. */
#include <stdio.h>
#include <stdlib.h>

enum { STATIONS = 50, READINGS = 100000, LINE_BYTES = 96 };

struct reading {
    int station;
    double celsius;
};

static void *checked(void *memory) {
    if (!memory) {
        abort();
    }
    return memory;
}

/* Makes the text of reading NUMBER, as a line that was read from a file. */
static char *read_line(int number) {
    char *line = checked(malloc(LINE_BYTES));
    (void)snprintf(line, LINE_BYTES, "%d,%.1f,a comment that nothing reads", number % STATIONS,
                   number % 400 / 10.0);
    return line;
}

static char **read_lines(void) {
    char **lines = checked(malloc(READINGS * sizeof *lines));
    for (int i = 0; i < READINGS; i++) {
        lines[i] = read_line(i);
    }
    return lines;
}

static struct reading *parse_line(const char *line) {
    struct reading *reading = checked(malloc(sizeof *reading));
    char *end;
    reading->station = (int)strtol(line, &end, 10);
    reading->celsius = strtod(end + 1, NULL);
    return reading;
}

static void free_lines(char **lines) {
    for (int i = 0; i < READINGS; i++) {
        free(lines[i]);
    }
    free(lines);
}

static void free_readings(struct reading **readings) {
    for (int i = 0; i < READINGS; i++) {
        free(readings[i]);
    }
    free(readings);
}

int main(void) {
    struct reading **readings = checked(malloc(READINGS * sizeof *readings));
    char **lines = read_lines();
    for (int i = 0; i < READINGS; i++) {
        readings[i] = parse_line(lines[i]);
    }
    free_lines(lines);
    double sums[STATIONS] = {0};
    for (int i = 0; i < READINGS; i++) {
        sums[readings[i]->station] += readings[i]->celsius;
    }
    printf("station 0: %.2f\n", sums[0] * STATIONS / READINGS);
    free_readings(readings);
    return 0;
}
