/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.def as text: help, example file, Markdown, man page. Every form walks the same rows, so
 * none can know an option that another does not.
 */
#include "config/internal.h"

#include <assert.h>
#include <string.h>

/* The rows with their headings: title set and no option, or the other way round. */
static const struct line {
    const char *title;
    enum config_id id;
} lines[] = {
#define SECTION(title) {title, CONFIG_ID_COUNT},
#define OPTION(name, type, unit, min, def, max, sentence) {NULL, CONFIG_ID_##name},
#include "config/options.def"
#undef OPTION
#undef SECTION
};
enum { LINE_COUNT = sizeof lines / sizeof lines[0] };

/* Prints text in lines of up to `width` columns, each behind `margin`. */
static void print_wrapped(FILE *out, const char *margin, size_t width, const char *text) {
    const size_t room = width - strlen(margin);
    while (text[0] != '\0') {
        size_t length = strlen(text);
        if (length > room)
            for (length = room; text[length] != ' '; length--)
                assert(length > 1); /* no word of the options is as long as a line */
        fprintf(out, "%s%.*s\n", margin, (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

/* "default 1GiB; a size from 1KiB to 1TiB, such as 64MiB" */
static void describe(const struct config_option *option, char *out, size_t size) {
    char allowed[CONFIG_VALUE_SIZE];
    config_describe(option, allowed, sizeof allowed);
    snprintf(out, size, "default %s; %s", option->def[0] == '\0' ? "empty" : option->def, allowed);
}

static void print_help_option(FILE *out, const struct config_option *option) {
    char flag[CONFIG_NAME_SIZE];
    char text[2 * CONFIG_VALUE_SIZE];
    char described[CONFIG_VALUE_SIZE + CONFIG_NAME_SIZE];
    const char *placeholder = config_types[option->type].placeholder;
    config_spell(option->name, CONFIG_STYLE_FLAG, flag);
    if (placeholder == NULL)
        fprintf(out, "  %s, --no-%s\n", flag, flag + 2);
    else
        fprintf(out, "  %s %s\n", flag, placeholder);
    describe(option, described, sizeof described);
    snprintf(text, sizeof text, "%s (%s)", option->sentence, described);
    print_wrapped(out, "        ", 80, text);
}

void config_print_help(FILE *out) {
    fputs("Usage: attentiond [--listen ADDRESSES] [--config FILE] [OPTION...]\n"
          "Answers attention requests over HTTP until SIGTERM or SIGINT.\n"
          "\n"
          "A value comes from the weakest to the strongest of: its default, the file, the\n"
          "variable ATTENTIOND_NAME, the flag. --name VALUE and --name=VALUE are the same.\n",
          out);
    for (size_t i = 0; i < LINE_COUNT; i++)
        if (lines[i].title != NULL)
            fprintf(out, "\n%s:\n", lines[i].title);
        else
            print_help_option(out, &config_options[lines[i].id]);
    fputs("\nCommands:\n", out);
    for (size_t i = 0; i < CONFIG_COMMAND_COUNT; i++) {
        const struct config_command *command = &config_commands[i];
        char flag[CONFIG_NAME_SIZE];
        config_spell(command->name, CONFIG_STYLE_FLAG, flag);
        fprintf(out, "  %s%s%s\n", flag, command->placeholder == NULL ? "" : " ",
                command->placeholder == NULL ? "" : command->placeholder);
        print_wrapped(out, "        ", 80, command->sentence);
    }
    fputs("\nExit status: 0 stopped as asked, 1 cannot start, 2 bad configuration.\n", out);
}

static void print_example_option(FILE *out, const struct config_option *option) {
    char allowed[CONFIG_VALUE_SIZE];
    config_describe(option, allowed, sizeof allowed);
    print_wrapped(out, "# ", 80, option->sentence);
    fprintf(out, "# Takes %s.\n#%s =%s%s\n\n", allowed, option->name,
            option->def[0] == '\0' ? "" : " ", option->def);
}

void config_print_example(FILE *out) {
    fputs("# attentiond's configuration file, made from config/options.def. Every line shows a\n"
          "# default; take out the # in front of it and change it. A line is `name = value`;\n"
          "# behind white space, # begins a comment. Variables (ATTENTIOND_MAX_BODY) and flags\n"
          "# (--max-body) are stronger than this file. `attentiond --config FILE --check-config`\n"
          "# shows what is in effect.\n\n",
          out);
    for (size_t i = 0; i < LINE_COUNT; i++)
        if (lines[i].title != NULL)
            fprintf(out, "# ---- %s ----\n\n", lines[i].title);
        else
            print_example_option(out, &config_options[lines[i].id]);
}

static void print_markdown_option(FILE *out, const struct config_option *option) {
    char allowed[CONFIG_VALUE_SIZE];
    config_describe(option, allowed, sizeof allowed);
    fprintf(out, "| `%s` | %s%s%s | %s | %s |\n", option->name, option->def[0] == '\0' ? "" : "`",
            option->def[0] == '\0' ? "empty" : option->def, option->def[0] == '\0' ? "" : "`",
            allowed, option->sentence);
}

void config_print_markdown(FILE *out) {
    for (size_t i = 0; i < LINE_COUNT; i++)
        if (lines[i].title != NULL)
            fprintf(out,
                    "%s### %s\n\n| Name | Default | Takes | Meaning |\n| --- | --- | --- | --- |\n",
                    i == 0 ? "" : "\n", lines[i].title);
        else
            print_markdown_option(out, &config_options[lines[i].id]);
}

/* mdoc writes the two dashes of a long flag as `Fl -name`. */
static void print_man_option(FILE *out, const struct config_option *option) {
    char flag[CONFIG_NAME_SIZE];
    char described[CONFIG_VALUE_SIZE + CONFIG_NAME_SIZE];
    const char *placeholder = config_types[option->type].placeholder;
    config_spell(option->name, CONFIG_STYLE_FLAG, flag);
    describe(option, described, sizeof described);
    if (placeholder == NULL)
        fprintf(out, ".It Fl %s , Fl -no-%s\n", flag + 1, flag + 2);
    else
        fprintf(out, ".It Fl %s Ar %s\n", flag + 1, placeholder);
    fprintf(out, "%s\n(%s)\n", option->sentence, described);
}

void config_print_man(FILE *out) {
    for (size_t i = 0; i < LINE_COUNT; i++) {
        if (lines[i].title == NULL) {
            print_man_option(out, &config_options[lines[i].id]);
            continue;
        }
        fprintf(out, "%s.Ss %s\n.Bl -tag -width Ds\n", i == 0 ? "" : ".El\n", lines[i].title);
    }
    fputs(".El\n.Ss Commands\n.Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < CONFIG_COMMAND_COUNT; i++) {
        const struct config_command *command = &config_commands[i];
        char flag[CONFIG_NAME_SIZE];
        config_spell(command->name, CONFIG_STYLE_FLAG, flag);
        fprintf(out, ".It Fl %s%s%s\n%s\n", flag + 1, command->placeholder == NULL ? "" : " Ar ",
                command->placeholder == NULL ? "" : command->placeholder, command->sentence);
    }
    fputs(".El\n", out);
}

void config_print_effective(const struct attn_config *config, FILE *out) {
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++) {
        const struct config_option *option = &config_options[i];
        char value[CONFIG_VALUE_SIZE];
        char place[CONFIG_PATH_SIZE + 16];
        config_types[option->type].format(option, config_field_view(config, option), value,
                                          sizeof value);
        config_place(config, option, config->origin[i], place, sizeof place);
        fprintf(out, "%s = %s  # %s\n", option->name, value, place);
    }
}
