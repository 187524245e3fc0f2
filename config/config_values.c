/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of options.def: how a value is read, written and described. Numbers are exact: what
 * does not fit, is no whole number, lacks its unit or has an unknown one is refused with a phrase
 * that completes the sentence '"12XB" …'.
 */
#include "config/internal.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *suffix;
    uint64_t factor;
};

/* Largest first, so that the first exact one of a factor is the one to print. */
static const struct unit byte_units[] = {
    {"PiB", UINT64_C(1) << 50},
    {"Pi", UINT64_C(1) << 50},
    {"P", UINT64_C(1) << 50},
    {"TiB", UINT64_C(1) << 40},
    {"Ti", UINT64_C(1) << 40},
    {"T", UINT64_C(1) << 40},
    {"GiB", UINT64_C(1) << 30},
    {"Gi", UINT64_C(1) << 30},
    {"G", UINT64_C(1) << 30},
    {"MiB", UINT64_C(1) << 20},
    {"Mi", UINT64_C(1) << 20},
    {"M", UINT64_C(1) << 20},
    {"KiB", UINT64_C(1) << 10},
    {"Ki", UINT64_C(1) << 10},
    {"k", UINT64_C(1) << 10},
    {"", 1},
    {"B", 1},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", UINT64_C(1000000000000)},
    {"PB", UINT64_C(1000000000000000)},
};
static const struct unit duration_units[] = {
    {"h", 3600000}, {"m", 60000}, {"min", 60000}, {"s", 1000}, {"ms", 1},
};
static const struct unit count_units[] = {{"", 1}};

/* What makes one numeric type differ from another. */
struct number_kind {
    const struct unit *units;
    size_t unit_count;
    const char *noun;        /* "a size" */
    const char *examples[4]; /* of which those within an option's bounds are shown */
    const char *unit_help;   /* what to write where the unit is wrong */
};
#define UNITS(list) (list), sizeof(list) / sizeof((list)[0])
static const struct number_kind integer_kind = {
    UNITS(count_units), "a whole number", {NULL}, "a plain number"};
static const struct number_kind bytes_kind = {
    UNITS(byte_units), "a size", {"64KiB", "64MiB"}, "B, KiB, MiB, GiB, TiB, or kB, MB, GB, TB"};
static const struct number_kind duration_kind = {
    UNITS(duration_units), "a duration", {"500ms", "30s", "5m"}, "ms, s, m or h"};

bool config_complain(struct config_phrase *phrase, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(phrase->text, sizeof phrase->text, format, arguments);
    va_end(arguments);
    return false;
}

static const struct unit *find_unit(const struct number_kind *kind, const char *suffix) {
    for (size_t i = 0; i < kind->unit_count; i++)
        if (strcasecmp(kind->units[i].suffix, suffix) == 0)
            return &kind->units[i];
    return NULL;
}

/* Reads decimal digits; moves *text behind them. False when the number does not fit. */
static bool scan_digits(const char **text, uint64_t *out) {
    uint64_t value = 0;
    for (; isdigit((unsigned char)**text); (*text)++) {
        const uint64_t digit = (uint64_t)(**text - '0');
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out = value;
    return true;
}

/* Reads digits and an exponent, as in 1e15. */
static bool scan_whole(const char **text, uint64_t *out) {
    uint64_t value, exponent = 0;
    if (!scan_digits(text, &value))
        return false;
    if (((*text)[0] == 'e' || (*text)[0] == 'E') && isdigit((unsigned char)(*text)[1])) {
        (*text)++;
        if (!scan_digits(text, &exponent))
            return false;
    }
    for (; exponent > 0 && value > 0; exponent--)
        if (__builtin_mul_overflow(value, UINT64_C(10), &value))
            return false;
    *out = value;
    return true;
}

static bool scan_number(const struct number_kind *kind, const char *text, uint64_t *out,
                        struct config_phrase *phrase) {
    const char *rest = text;
    uint64_t value;
    if (text[0] == '\0')
        return config_complain(phrase, "is empty");
    if (text[0] == '-')
        return config_complain(phrase, "is negative");
    if (!isdigit((unsigned char)text[0]))
        return config_complain(phrase, "is not a whole number");
    if (!scan_whole(&rest, &value))
        return config_complain(phrase, "is too large");
    if (rest[0] == '.')
        return config_complain(phrase, "is not a whole number: use a smaller unit");
    while (rest[0] == ' ')
        rest++;
    const struct unit *unit = find_unit(kind, rest);
    if (unit == NULL && rest[0] == '\0' && value != 0)
        return config_complain(phrase, "has no unit: add %s", kind->unit_help);
    char suffix[24];
    config_quote(rest, strlen(rest), suffix, sizeof suffix);
    if (unit == NULL && rest[0] != '\0')
        return config_complain(phrase, "ends in \"%s\": expected %s", suffix, kind->unit_help);
    if (unit != NULL && __builtin_mul_overflow(value, unit->factor, &value))
        return config_complain(phrase, "is too large");
    *out = value;
    return true;
}

/* A bound from options.def, which the project's own tests hold to be right. */
static uint64_t bound(const struct number_kind *kind, const char *text) {
    struct config_phrase phrase = {""};
    uint64_t value = 0;
    const bool scanned = scan_number(kind, text, &value, &phrase);
    assert(scanned);
    (void)scanned;
    return value;
}

static bool parse_number(const struct number_kind *kind, const struct config_option *option,
                         const char *text, void *field, struct config_phrase *phrase) {
    uint64_t value;
    if (!scan_number(kind, text, &value, phrase))
        return false;
    if (value < bound(kind, option->min))
        return config_complain(phrase, "is below the smallest value");
    if (value > bound(kind, option->max))
        return config_complain(phrase, "is above the largest value");
    memcpy(field, &value, sizeof value);
    return true;
}

static void format_number(const struct number_kind *kind, const void *field, char *out,
                          size_t size) {
    uint64_t value;
    memcpy(&value, field, sizeof value);
    size_t i = 0;
    while (i + 1 < kind->unit_count && (value % kind->units[i].factor != 0 || value == 0))
        i++;
    snprintf(out, size, "%" PRIu64 "%s", value / kind->units[i].factor,
             value == 0 ? "" : kind->units[i].suffix);
}

static bool is_within(const struct number_kind *kind, const struct config_option *option,
                      const char *text) {
    const uint64_t value = bound(kind, text);
    return bound(kind, option->min) <= value && value <= bound(kind, option->max);
}

/* ", such as 500ms, 30s or 5m", or nothing. */
static void describe_examples(const struct number_kind *kind, const struct config_option *option,
                              char *out, size_t size) {
    const char *fitting[sizeof kind->examples / sizeof *kind->examples];
    size_t count = 0, used = 0;
    for (size_t i = 0; kind->examples[i] != NULL; i++)
        if (is_within(kind, option, kind->examples[i]))
            fitting[count++] = kind->examples[i];
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0          ? ", such as "
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 fitting[i]);
}

static void describe_number(const struct number_kind *kind, const struct config_option *option,
                            char *out, size_t size) {
    const size_t used = (size_t)snprintf(out, size, "%s from %s to %s%s%s", kind->noun, option->min,
                                         option->max, kind == &integer_kind ? " " : "",
                                         kind == &integer_kind ? option->unit : "");
    if (used < size)
        describe_examples(kind, option, out + used, size - used);
}

#define NUMBER_TYPE(kind)                                                                       \
    static bool parse_##kind(const struct config_option *option, const char *text, void *field, \
                             struct config_phrase *phrase) {                                    \
        return parse_number(&kind##_kind, option, text, field, phrase);                         \
    }                                                                                           \
    static void format_##kind(const struct config_option *option, const void *field, char *out, \
                              size_t size) {                                                    \
        (void)option;                                                                           \
        format_number(&kind##_kind, field, out, size);                                          \
    }                                                                                           \
    static void describe_##kind(const struct config_option *option, char *out, size_t size) {   \
        describe_number(&kind##_kind, option, out, size);                                       \
    }
NUMBER_TYPE(integer)
NUMBER_TYPE(bytes)
NUMBER_TYPE(duration)

static bool parse_string(const struct config_option *option, const char *text, void *field,
                         struct config_phrase *phrase) {
    const size_t length = strlen(text);
    if (length < bound(&integer_kind, option->min))
        return config_complain(phrase, "is too short");
    if (length > bound(&integer_kind, option->max))
        return config_complain(phrase, "is too long: %zu characters", length);
    for (size_t i = 0; i < length; i++)
        if (!isprint((unsigned char)text[i]))
            return config_complain(phrase, "has an unprintable character at place %zu", i + 1);
    memcpy(field, text, length + 1);
    return true;
}

static void format_string(const struct config_option *option, const void *field, char *out,
                          size_t size) {
    (void)option;
    snprintf(out, size, "%s", (const char *)field);
}

static void describe_string(const struct config_option *option, char *out, size_t size) {
    snprintf(out, size, "%s to %s printable ASCII characters", option->min, option->max);
}

static void describe_path(const struct config_option *option, char *out, size_t size) {
    snprintf(out, size, "nothing, or a path of at most %s characters", option->max);
}

/* The n-th word of a list split by |; false past its end. */
static bool choice_word(const char *words, unsigned n, char *out, size_t size) {
    for (; n > 0; n--) {
        words = strchr(words, '|');
        if (words == NULL)
            return false;
        words++;
    }
    snprintf(out, size, "%.*s", (int)strcspn(words, "|"), words);
    return true;
}

static bool parse_choice(const struct config_option *option, const char *text, void *field,
                         struct config_phrase *phrase) {
    char word[CONFIG_NAME_SIZE];
    for (unsigned n = 0; choice_word(option->unit, n, word, sizeof word); n++) {
        if (strcmp(word, text) != 0)
            continue;
        memcpy(field, &n, sizeof n);
        return true;
    }
    return config_complain(phrase, text[0] == '\0' ? "is empty" : "is none of the words");
}

static void format_choice(const struct config_option *option, const void *field, char *out,
                          size_t size) {
    unsigned n;
    memcpy(&n, field, sizeof n);
    const bool known = choice_word(option->unit, n, out, size);
    assert(known);
    (void)known;
}

static void describe_choice(const struct config_option *option, char *out, size_t size) {
    char word[CONFIG_NAME_SIZE];
    size_t used = (size_t)snprintf(out, size, "one of");
    for (unsigned n = 0; choice_word(option->unit, n, word, sizeof word); n++)
        used += (size_t)snprintf(out + used, size - used, "%s %s", n == 0 ? "" : ",", word);
    assert(used < size);
}

static bool parse_bool(const struct config_option *option, const char *text, void *field,
                       struct config_phrase *phrase) {
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};
    (void)option;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) != 0)
            continue;
        *(bool *)field = i % 2 == 1;
        return true;
    }
    return config_complain(phrase, text[0] == '\0' ? "is empty" : "is neither on nor off");
}

static void format_bool(const struct config_option *option, const void *field, char *out,
                        size_t size) {
    (void)option;
    snprintf(out, size, "%s", *(const bool *)field ? "on" : "off");
}

static void describe_bool(const struct config_option *option, char *out, size_t size) {
    (void)option;
    snprintf(out, size, "on or off");
}

const struct config_type config_types[CONFIG_TYPE_COUNT] = {
    [CONFIG_TYPE_ADDRESSES] = {"ADDRESSES", config_parse_addresses, config_format_addresses,
                               config_describe_addresses},
    [CONFIG_TYPE_STRING] = {"TEXT", parse_string, format_string, describe_string},
    [CONFIG_TYPE_PATH] = {"FILE", parse_string, format_string, describe_path},
    [CONFIG_TYPE_CHOICE] = {"WORD", parse_choice, format_choice, describe_choice},
    [CONFIG_TYPE_INTEGER] = {"N", parse_integer, format_integer, describe_integer},
    [CONFIG_TYPE_BYTES] = {"SIZE", parse_bytes, format_bytes, describe_bytes},
    [CONFIG_TYPE_DURATION] = {"TIME", parse_duration, format_duration, describe_duration},
    [CONFIG_TYPE_BOOL] = {NULL, parse_bool, format_bool, describe_bool},
};

void config_describe(const struct config_option *option, char *out, size_t size) {
    config_types[option->type].describe(option, out, size);
}
