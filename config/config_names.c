/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of options.def as data, their three spellings, and the search for the known name nearest
 * to an unknown one.
 */
#include "config/internal.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#define FIELD_ADDRESSES(name) name
#define FIELD_STRING(name) name
#define FIELD_PATH(name) name
#define FIELD_CHOICE(name) name
#define FIELD_INTEGER(name) name
#define FIELD_BYTES(name) name
#define FIELD_DURATION(name) name##_ms
#define FIELD_BOOL(name) name

const struct config_option config_options[CONFIG_ID_COUNT] = {
#define SECTION(title)
#define OPTION(name, type, unit, min, def, max, sentence) \
    {#name,                                               \
     CONFIG_TYPE_##type,                                  \
     offsetof(struct attn_config, FIELD_##type(name)),    \
     unit,                                                \
     min,                                                 \
     def,                                                 \
     max,                                                 \
     sentence},
#include "config/options.def"
#undef OPTION
#undef SECTION
};

const struct config_command config_commands[CONFIG_COMMAND_COUNT] = {
    {"config", "FILE", "Read this configuration file; ATTENTIOND_CONFIG names one too."},
    {"check_config", NULL, "Print every value in effect with its source, and exit."},
    {"health", NULL,
     "Ask the daemon that runs with these options whether it answers, and exit: with 0 if it does, "
     "with 1 if not."},
    {"make_key", "NAME",
     "Print a new key for a client, and the line of the key file that lets it in; "
     "exit."},
    {"help", NULL, "Print this text and exit."},
    {"version", NULL, "Print the version and exit."},
};

static const struct spelling {
    const char *prefix;
    char separator;
    bool upper;
} spellings[] = {
    [CONFIG_STYLE_FILE] = {"", '_', false},
    [CONFIG_STYLE_ENVIRONMENT] = {"ATTENTIOND_", '_', true},
    [CONFIG_STYLE_FLAG] = {"--", '-', false},
};

void config_spell(const char *name, enum config_style style, char out[CONFIG_NAME_SIZE]) {
    const struct spelling *spelling = &spellings[style];
    const int length = snprintf(out, CONFIG_NAME_SIZE, "%s%s", spelling->prefix, name);
    assert(length < CONFIG_NAME_SIZE);
    for (int i = (int)strlen(spelling->prefix); i < length; i++) {
        if (out[i] == '_')
            out[i] = spelling->separator;
        else if (spelling->upper)
            out[i] = (char)toupper((unsigned char)out[i]);
    }
}

const struct config_option *config_find(const char *name, size_t length, enum config_style style) {
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++) {
        char known[CONFIG_NAME_SIZE];
        config_spell(config_options[i].name, style, known);
        if (strlen(known) == length && memcmp(known, name, length) == 0)
            return &config_options[i];
    }
    return NULL;
}

static size_t least(size_t a, size_t b, size_t c) {
    const size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* Letters alike whatever the spelling: case and the separator do not count as mistakes. */
static char folded(char c) {
    if (c == '-')
        return '_';
    return (char)tolower((unsigned char)c);
}

/* Levenshtein distance, one row of its table at a time. */
static size_t distance(const char *a, size_t a_length, const char *b) {
    const size_t b_length = strlen(b);
    size_t row[CONFIG_NAME_SIZE];
    assert(b_length < CONFIG_NAME_SIZE);
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const size_t change = folded(a[i - 1]) != folded(b[j - 1]);
            const size_t above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + change);
            diagonal = above;
        }
    }
    return row[b_length];
}

struct nearest {
    const char *name;
    size_t distance;
};

static void consider(struct nearest *best, const char *known, const char *name, size_t length) {
    const size_t d = distance(name, length, known);
    if (d < best->distance)
        *best = (struct nearest){known, d};
}

/* What other daemons call things. */
static const char *const foreign[][2] = {{"port", "listen"},     {"host", "listen"},
                                         {"bind", "listen"},     {"address", "listen"},
                                         {"workers", "threads"}, {"log_level", "log"}};

static const char *translated(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (distance(name, length, foreign[i][0]) == 0)
            return foreign[i][1];
    return NULL;
}

/* The known name nearest to `name`, which has no prefix; NULL when none is near. */
static const char *nearest_name(const char *name, size_t length, enum config_style style) {
    const char *const known = translated(name, length);
    if (known != NULL)
        return known;
    /* Up to a third of the letters may differ: more would name options nobody meant. */
    struct nearest best = {NULL, length / 3 + 2};
    const size_t commands[] = {[CONFIG_STYLE_FILE] = 0,
                               [CONFIG_STYLE_ENVIRONMENT] = 1,
                               [CONFIG_STYLE_FLAG] = CONFIG_COMMAND_COUNT};
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++)
        consider(&best, config_options[i].name, name, length);
    for (size_t i = 0; i < commands[style]; i++)
        consider(&best, config_commands[i].name, name, length);
    return best.name;
}

bool config_reject_name(struct config_error *error, const char *place, const char *name,
                        size_t length, enum config_style style) {
    static const char *const kinds[] = {[CONFIG_STYLE_FILE] = "option",
                                        [CONFIG_STYLE_ENVIRONMENT] = "variable",
                                        [CONFIG_STYLE_FLAG] = "flag"};
    const size_t prefix = strlen(spellings[style].prefix);
    char quoted[2 * CONFIG_NAME_SIZE];
    char hint[CONFIG_NAME_SIZE];
    config_quote(name, length, quoted, sizeof quoted);
    const size_t bare = length > prefix ? length - prefix : 0;
    const char *near =
        bare < CONFIG_NAME_SIZE ? nearest_name(name + length - bare, bare, style) : NULL;
    if (near == NULL)
        return config_fail(error, "%s%sunknown %s %s; attentiond --help lists all of them.",
                           place == NULL ? "" : place, place == NULL ? "" : ": ", kinds[style],
                           quoted);
    config_spell(near, style, hint);
    return config_fail(error, "%s%sunknown %s %s; did you mean %s?", place == NULL ? "" : place,
                       place == NULL ? "" : ": ", kinds[style], quoted, hint);
}
