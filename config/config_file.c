/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: lines `name = value`, empty lines, and # comments at the start of a line
 * or behind white space. LF and CRLF end a line. It refuses lines over 4096 bytes, NUL bytes, lines
 * without =, unknown names and names given twice.
 */
#include "config/internal.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { LINE_SIZE = 4096 };

struct reader {
    FILE *file;
    unsigned line; /* of the text below */
    char text[LINE_SIZE + 1];
};

enum reading { READING_LINE, READING_END, READING_LONG, READING_NUL, READING_ERROR };

/* Reads one line without its end. */
static enum reading read_line(struct reader *reader) {
    size_t length = 0;
    int c = 0;
    errno = 0;
    while ((c = getc(reader->file)) != EOF && c != '\n') {
        if (c == '\0')
            return READING_NUL;
        if (length == LINE_SIZE)
            return READING_LONG;
        reader->text[length++] = (char)c;
    }
    reader->text[length] = '\0';
    if (ferror(reader->file))
        return READING_ERROR;
    return c == EOF && length == 0 ? READING_END : READING_LINE;
}

static char *trim(char *text) {
    while (isspace((unsigned char)text[0]))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

static void cut_comment(char *text) {
    for (char *c = text; *c != '\0'; c++)
        if (*c == '#' && (c == text || isspace((unsigned char)c[-1])))
            *c = '\0';
}

/* People quote values out of habit; the quotes are not part of them. */
static char *unquote(char *text) {
    const size_t length = strlen(text);
    if (length < 2 || text[0] != '"' || text[length - 1] != '"')
        return text;
    text[length - 1] = '\0';
    return text + 1;
}

static bool set_line(struct attn_config *config, const char *path, unsigned line, char *text,
                     struct config_error *error) {
    char place[CONFIG_PATH_SIZE + 16];
    snprintf(place, sizeof place, "%s:%u", path, line);
    char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        char quoted[80];
        config_quote(text, strlen(text), quoted, sizeof quoted);
        return config_fail(error, "%s: expected `name = value`, found \"%s\".", place, quoted);
    }
    *equals = '\0';
    const char *name = trim(text);
    const struct config_option *option = config_find(name, strlen(name), CONFIG_STYLE_FILE);
    if (option == NULL)
        return config_reject_name(error, place, name, strlen(name), CONFIG_STYLE_FILE);
    const struct config_origin *before = &config->origin[option - config_options];
    if (before->source == CONFIG_FILE)
        return config_fail(error, "%s: %s is set a second time; line %u set it first.", place, name,
                           before->line);
    return config_set(config, option, unquote(trim(equals + 1)),
                      (struct config_origin){CONFIG_FILE, line}, error);
}

static bool read_lines(struct attn_config *config, struct reader *reader, const char *path,
                       struct config_error *error) {
    enum reading reading = READING_LINE;
    for (reader->line = 1; (reading = read_line(reader)) == READING_LINE; reader->line++) {
        const bool mark = reader->line == 1 && strncmp(reader->text, "\xEF\xBB\xBF", 3) == 0;
        cut_comment(reader->text + (mark ? 3 : 0));
        char *text = trim(reader->text + (mark ? 3 : 0));
        if (text[0] != '\0' && !set_line(config, path, reader->line, text, error))
            return false;
    }
    if (reading == READING_LONG)
        return config_fail(error,
                           "%s:%u: the line is longer than %d bytes; is this the right file?", path,
                           reader->line, LINE_SIZE);
    if (reading == READING_NUL)
        return config_fail(error, "%s:%u: the line has a NUL byte; is this the right file?", path,
                           reader->line);
    if (reading == READING_ERROR)
        return config_fail(error, "%s: cannot be read: %s.", path, strerror(errno));
    return true;
}

bool config_read_file(struct attn_config *config, const char *path, struct config_error *error) {
    struct reader reader = {.text = ""};
    if (path[0] == '\0')
        return config_fail(error, "the name of the configuration file is empty; name a file or "
                                  "leave --config and ATTENTIOND_CONFIG out.");
    if (strlen(path) >= sizeof config->file)
        return config_fail(error, "the name of the configuration file is longer than %zu bytes.",
                           sizeof config->file - 1);
    reader.file = fopen(path, "re");
    if (reader.file == NULL)
        return config_fail(error, "%s: cannot open the configuration file: %s.", path,
                           strerror(errno));
    snprintf(config->file, sizeof config->file, "%s", path);
    const bool read = read_lines(config, &reader, path, error);
    fclose(reader.file);
    return read;
}
