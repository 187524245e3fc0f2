/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of the configuration: defaults < file < environment < flags. Each layer writes over
 * the one before and leaves its name as the value's origin, so that a refusal can say who set what.
 */
#include "config/internal.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

bool config_fail(struct config_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

void config_quote(const char *text, size_t length, char *out, size_t size) {
    size_t used = 0;
    assert(size > 8); /* room for one escape and the dots */
    for (size_t i = 0; i < length; i++) {
        if (used + 8 > size) {
            snprintf(out + used, size - used, "...");
            return;
        }
        const unsigned char c = (unsigned char)text[i];
        used += (size_t)snprintf(out + used, size - used, c < 0x20 || c == 0x7F ? "\\x%02X" : "%c",
                                 (unsigned)c);
    }
    out[used] = '\0';
}

void *config_field(struct attn_config *config, const struct config_option *option) {
    return (char *)config + option->offset;
}

const void *config_field_view(const struct attn_config *config,
                              const struct config_option *option) {
    return (const char *)config + option->offset;
}

void config_place(const struct attn_config *config, const struct config_option *option,
                  struct config_origin origin, char *out, size_t size) {
    char name[CONFIG_NAME_SIZE];
    switch (origin.source) { /* unreached: another, for each has its case */
    case CONFIG_DEFAULT:
        snprintf(out, size, "default");
        break;
    case CONFIG_AUTO:
        snprintf(out, size, "automatic");
        break;
    case CONFIG_FILE:
        snprintf(out, size, "%s:%u", config->file, origin.line);
        break;
    case CONFIG_ENVIRONMENT:
    case CONFIG_FLAG:
        config_spell(option->name,
                     origin.source == CONFIG_FLAG ? CONFIG_STYLE_FLAG : CONFIG_STYLE_ENVIRONMENT,
                     name);
        snprintf(out, size, "%s", name);
        break;
    }
}

bool config_set(struct attn_config *config, const struct config_option *option, const char *text,
                struct config_origin origin, struct config_error *error) {
    struct config_phrase phrase = {""};
    if (config_types[option->type].parse(option, text, config_field(config, option), &phrase)) {
        config->origin[option - config_options] = origin;
        return true;
    }
    char place[CONFIG_PATH_SIZE + 16];
    char quoted[80];
    char allowed[CONFIG_VALUE_SIZE];
    config_place(config, option, origin, place, sizeof place);
    config_quote(text, strlen(text), quoted, sizeof quoted);
    config_describe(option, allowed, sizeof allowed);
    return config_fail(error, "%s: \"%s\" %s; %s takes %s.", place, quoted, phrase.text,
                       option->name, allowed);
}

static void set_defaults(struct attn_config *config) {
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++) {
        struct config_error error = {""};
        const bool set = config_set(config, &config_options[i], config_options[i].def,
                                    (struct config_origin){CONFIG_DEFAULT, 0}, &error);
        assert(set);
        (void)set;
    }
}

/* The command line, taken apart before any layer is filled. */
struct flags {
    const char *values[CONFIG_ID_COUNT]; /* NULL: not given; the last one wins */
    const char *file, *key_name;
    enum config_action action;
};

/* One flag in argv: --name, --name=value. */
struct flag {
    const char *text;
    size_t length;     /* of --name */
    const char *value; /* behind =, or NULL */
};

static bool is_command(const struct flag *flag, const char *name) {
    return strlen(name) == flag->length && memcmp(flag->text, name, flag->length) == 0;
}

/* A flag's value: behind =, or the next argument unless that is a flag itself. */
static bool take_value(const struct flag *flag, int argc, char *const argv[], int *i,
                       const char **out, struct config_error *error) {
    *out = flag->value;
    if (*out != NULL)
        return true;
    if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0)
        return config_fail(error, "%s: needs a value, as in %s=VALUE.", flag->text, flag->text);
    *out = argv[++*i];
    return true;
}

/* --name and --no-name; true when the flag was one of a bool option. */
static bool take_bool(struct flags *flags, const struct flag *flag) {
    static const char no[] = "--no-";
    const struct config_option *option = config_find(flag->text, flag->length, CONFIG_STYLE_FLAG);
    const char *value = flag->value == NULL ? "on" : flag->value;
    char positive[CONFIG_NAME_SIZE];
    if (option == NULL && flag->value == NULL && strncmp(flag->text, no, sizeof no - 1) == 0) {
        const int length = snprintf(positive, sizeof positive, "--%s", flag->text + sizeof no - 1);
        if ((size_t)length < sizeof positive)
            option = config_find(positive, (size_t)length, CONFIG_STYLE_FLAG);
        value = "off";
    }
    if (option == NULL || option->type != CONFIG_TYPE_BOOL)
        return false;
    flags->values[option - config_options] = value;
    return true;
}

/* What is asked for by a word alone. */
static bool take_command(struct flags *flags, const struct flag *flag) {
    static const struct {
        const char *name;
        enum config_action action;
    } commands[] = {{"--check-config", CONFIG_CHECK}, {"--health", CONFIG_HEALTH}};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (!is_command(flag, commands[i].name) || flag->value != NULL)
            continue;
        flags->action = commands[i].action;
        return true;
    }
    return false;
}

static bool take_flag(struct flags *flags, int argc, char *const argv[], int *i,
                      struct config_error *error) {
    const char *text = argv[*i];
    if (strncmp(text, "--", 2) != 0 || text[2] == '\0') {
        char quoted[80];
        config_quote(text, strlen(text), quoted, sizeof quoted);
        return config_fail(error, "unexpected argument \"%s\"; flags look like --name=value.",
                           quoted);
    }
    const char *equals = strchr(text, '=');
    const struct flag flag = {text, strcspn(text, "="), equals == NULL ? NULL : equals + 1};
    if (is_command(&flag, "--config"))
        return take_value(&flag, argc, argv, i, &flags->file, error);
    if (take_command(flags, &flag))
        return true;
    if (is_command(&flag, "--make-key")) {
        flags->action = CONFIG_MAKE_KEY;
        return take_value(&flag, argc, argv, i, &flags->key_name, error);
    }
    if (take_bool(flags, &flag))
        return true;
    const struct config_option *option = config_find(text, flag.length, CONFIG_STYLE_FLAG);
    if (option == NULL)
        return config_reject_name(error, NULL, text, flag.length, CONFIG_STYLE_FLAG);
    return take_value(&flag, argc, argv, i, &flags->values[option - config_options], error);
}

static bool parse_flags(struct flags *flags, int argc, char *const argv[],
                        struct config_error *error) {
    *flags = (struct flags){.action = CONFIG_RUN};
    /* Whoever asks for help gets it, whatever else is wrong. */
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            flags->action = CONFIG_HELP;
        if (strcmp(argv[i], "--version") == 0)
            flags->action = CONFIG_VERSION;
        if (flags->action != CONFIG_RUN)
            return true;
    }
    for (int i = 1; i < argc; i++)
        if (!take_flag(flags, argc, argv, &i, error))
            return false;
    return true;
}

static bool apply_flags(struct attn_config *config, const struct flags *flags,
                        struct config_error *error) {
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++)
        if (flags->values[i] != NULL && !config_set(config, &config_options[i], flags->values[i],
                                                    (struct config_origin){CONFIG_FLAG, 0}, error))
            return false;
    return true;
}

enum config_action config_load(struct attn_config *config, int argc, char *const argv[],
                               char *const envp[], struct config_error *error) {
    struct flags flags;
    set_defaults(config);
    if (!parse_flags(&flags, argc, argv, error))
        return CONFIG_REJECTED;
    if (flags.key_name != NULL)
        snprintf(config->key_name, sizeof config->key_name, "%s", flags.key_name);
    if (flags.action == CONFIG_HELP || flags.action == CONFIG_VERSION ||
        flags.action == CONFIG_MAKE_KEY)
        return flags.action;
    const char *file = flags.file != NULL ? flags.file : config_environment_file(envp);
    if (file != NULL && !config_read_file(config, file, error))
        return CONFIG_REJECTED;
    if (!config_read_environment(config, envp, error) || !apply_flags(config, &flags, error))
        return CONFIG_REJECTED;
    return flags.action;
}
