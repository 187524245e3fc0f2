/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of config/ share: the rows of options.def as data, the types as a table, names and
 * their three spellings. Nothing outside config/ and its tests includes this.
 */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include "config/config.h"

enum config_type_id {
    CONFIG_TYPE_ADDRESSES,
    CONFIG_TYPE_STRING,
    CONFIG_TYPE_PATH,
    CONFIG_TYPE_CHOICE,
    CONFIG_TYPE_INTEGER,
    CONFIG_TYPE_BYTES,
    CONFIG_TYPE_DURATION,
    CONFIG_TYPE_BOOL,
    CONFIG_TYPE_COUNT
};

/* One row of options.def. */
struct config_option {
    const char *name;
    enum config_type_id type;
    size_t offset; /* of its field in struct attn_config */
    const char *unit;
    const char *min;
    const char *def;
    const char *max;
    const char *sentence;
};
extern const struct config_option config_options[CONFIG_ID_COUNT];

enum {
    CONFIG_NAME_SIZE = 40,    /* any name in any spelling */
    CONFIG_VALUE_SIZE = 1100, /* any value, formatted: four addresses are longest */
    CONFIG_PHRASE_SIZE = 160, /* "is not a whole number" and the like */
};

struct config_phrase {
    char text[CONFIG_PHRASE_SIZE];
};

/* How a type is read, written and described. */
struct config_type {
    const char *placeholder; /* in --help: "SIZE" */
    /* Reads text into the option's field; on failure says in *phrase what is wrong with it. */
    bool (*parse)(const struct config_option *option, const char *text, void *field,
                  struct config_phrase *phrase);
    /* Writes the field so that parse reads the same value. */
    void (*format)(const struct config_option *option, const void *field, char *out, size_t size);
    /* "a size from 1KiB to 1TiB, such as 64MiB" */
    void (*describe)(const struct config_option *option, char *out, size_t size);
};
extern const struct config_type config_types[CONFIG_TYPE_COUNT];

/* The type ADDRESSES, which has a file of its own. */
bool config_parse_addresses(const struct config_option *option, const char *text, void *field,
                            struct config_phrase *phrase);
void config_format_addresses(const struct config_option *option, const void *field, char *out,
                             size_t size);
void config_describe_addresses(const struct config_option *option, char *out, size_t size);

/* Writes the phrase; always returns false, for `return config_complain(…)`. */
bool config_complain(struct config_phrase *phrase, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The field of an option. */
void *config_field(struct attn_config *config, const struct config_option *option);
const void *config_field_view(const struct attn_config *config, const struct config_option *option);

/* "a size from 1KiB to 1TiB, such as 64MiB" */
void config_describe(const struct config_option *option, char *out, size_t size);

/* max_body in a file, ATTENTIOND_MAX_BODY in the environment, --max-body as a flag. */
enum config_style { CONFIG_STYLE_FILE, CONFIG_STYLE_ENVIRONMENT, CONFIG_STYLE_FLAG };
void config_spell(const char *name, enum config_style style, char out[CONFIG_NAME_SIZE]);

/* The option of that name in that spelling, prefix and all; or NULL. */
const struct config_option *config_find(const char *name, size_t length, enum config_style style);

/* Flags that are no options. */
struct config_command {
    const char *name;
    const char *placeholder; /* NULL: takes no value */
    const char *sentence;
};
enum { CONFIG_COMMAND_COUNT = 6 };
extern const struct config_command config_commands[CONFIG_COMMAND_COUNT];

/*
 * Says that name is unknown and which known one, in the same spelling, is nearest to it, if any is
 * near. place is "attentiond.conf:3: " or "".
 */
bool config_reject_name(struct config_error *error, const char *place, const char *name,
                        size_t length, enum config_style style);

/* Sets one option from text. False with error->text set when text will not do. */
bool config_set(struct attn_config *config, const struct config_option *option, const char *text,
                struct config_origin origin, struct config_error *error);

/* Reads a configuration file over what *config holds. */
bool config_read_file(struct attn_config *config, const char *path, struct config_error *error);

/* What ATTENTIOND_CONFIG names, or NULL. *Borrows* from envp. */
const char *config_environment_file(char *const envp[]);

/* Reads the ATTENTIOND_* variables over what *config holds. */
bool config_read_environment(struct attn_config *config, char *const envp[],
                             struct config_error *error);

/* Where the value of an option came from: "a.conf:3", "ATTENTIOND_THREADS", "--threads". */
void config_place(const struct attn_config *config, const struct config_option *option,
                  struct config_origin origin, char *out, size_t size);

/* Copies text for a message: control bytes become \xNN, a long text is cut with "...". */
void config_quote(const char *text, size_t length, char *out, size_t size);

/* Writes the error; always returns false. */
bool config_fail(struct config_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
