/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is printed from options.def: that the committed files are what they would be if made now,
 * that no form leaves an option out, and that what is printed as a file reads back. Runs in the
 * project's root.
 */
#include "config/internal.h"
#include "tests/support/test_main.h"
#include "tests/unit/config/config_fixture.h"

static char *printed(void (*print)(FILE *out)) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    print(out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

static char *effective(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    config_print_effective(&fixture.config, out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

START_TEST(the_committed_file_is_what_would_be_made_now) {
    const struct config_document *document = &config_documents[_i];
    char *expected = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&expected, &size);
    ck_assert_ptr_nonnull(out);
    ck_assert_msg(config_generate(document, out), "no template: run in the project's root");
    ck_assert_int_eq(fclose(out), 0);
    char *found = calloc(1, size + 2);
    FILE *file = fopen(document->path, "r");
    ck_assert_msg(file != NULL, "no %s: run in the project's root", document->path);
    ck_assert_msg(fread(found, 1, size + 1, file) == size && memcmp(found, expected, size) == 0,
                  "%s is not what options.def says: make generate", document->path);
    fclose(file);
    free(found);
    free(expected);
}
END_TEST

START_TEST(a_missing_template_is_reported) {
    const struct config_document document = {"x", "nonexistent.in", config_print_man};
    ck_assert(!config_generate(&document, stderr));
}
END_TEST

/* Every form names every option, with its default and its sentence. */
START_TEST(every_form_has_every_option) {
    static const struct form {
        void (*print)(FILE *out);
        enum config_style style;
    } forms[] = {{config_print_help, CONFIG_STYLE_FLAG},
                 {config_print_example, CONFIG_STYLE_FILE},
                 {config_print_markdown, CONFIG_STYLE_FILE},
                 {config_print_man, CONFIG_STYLE_FLAG}};
    char *text = printed(forms[_i].print);
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++) {
        char name[CONFIG_NAME_SIZE];
        char start[CONFIG_NAME_SIZE];
        config_spell(config_options[i].name, forms[_i].style, name);
        /* A man page writes the flag's first dash as a macro. */
        ck_assert_msg(strstr(text, name + (forms[_i].print == config_print_man)) != NULL, "%s",
                      name);
        snprintf(start, sizeof start, "%.20s", config_options[i].sentence);
        ck_assert_msg(strstr(text, start) != NULL, "%s", start);
        ck_assert_ptr_nonnull(strstr(text, config_options[i].def));
    }
    free(text);
}
END_TEST

START_TEST(help_fits_a_terminal) {
    char *text = printed(config_print_help);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") <= 80, "%.100s", line);
    for (size_t i = 0; i < CONFIG_COMMAND_COUNT; i++) {
        char flag[CONFIG_NAME_SIZE];
        config_spell(config_commands[i].name, CONFIG_STYLE_FLAG, flag);
        ck_assert_ptr_nonnull(strstr(text, flag));
    }
    free(text);
}
END_TEST

/* With the # taken off, the example must set each option to the default it has anyway. */
START_TEST(the_example_sets_every_default) {
    char *text = printed(config_print_example);
    for (char *c = text; (c = strchr(c, '#')) != NULL; c++)
        if (c[1] != ' ')
            *c = ' ';
    char flag[256];
    assert_accepted(NO_ARGS, NO_ENVIRONMENT);
    const struct attn_config defaults = fixture.config;
    snprintf(flag, sizeof flag, "--config=%s", fixture_text("example.conf", text));
    assert_accepted(ARGS(flag, NULL), NO_ENVIRONMENT);
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++)
        ck_assert_msg(fixture.config.origin[i].source == CONFIG_FILE, "%s", config_options[i].name);
    ck_assert_mem_eq(&fixture.config, &defaults, offsetof(struct attn_config, origin));
    free(text);
}
END_TEST

START_TEST(the_effective_values_read_back) {
    char variable[256];
    snprintf(variable, sizeof variable, "ATTENTIOND_CONFIG=%s",
             fixture_text("a.conf", "\nqueue_timeout = 1500ms\nlisten = [::1]:0\nlog = errors\n"));
    assert_accepted(ARGS("--max-body=1025", "--no-cancel-on-disconnect", NULL),
                    LIST("ATTENTIOND_KERNEL=blas", variable, NULL));
    ck_assert(config_resolve_auto(&fixture.config, fixture.directory, &fixture.error));
    const struct attn_config before = fixture.config;
    char *text = effective();
    ck_assert_ptr_nonnull(strstr(text, "max_body = 1025  # --max-body\n"));
    ck_assert_ptr_nonnull(strstr(text, "kernel = blas  # ATTENTIOND_KERNEL\n"));
    ck_assert_ptr_nonnull(strstr(text, "json_max_body = 1025  # automatic\n"));
    ck_assert_ptr_nonnull(strstr(text, "max_connections = 4096  # default\n"));
    ck_assert_ptr_nonnull(strstr(text, "a.conf:2\n"));
    char flag[256];
    snprintf(flag, sizeof flag, "--config=%s", fixture_text("b.conf", text));
    assert_accepted(ARGS(flag, NULL), NO_ENVIRONMENT);
    ck_assert_mem_eq(&fixture.config, &before, offsetof(struct attn_config, origin));
    free(text);
}
END_TEST

static Suite *config_print_suite(void) {
    Suite *suite = suite_create("config_print");
    TCase *forms = tcase_create("forms");
    tcase_add_checked_fixture(forms, fixture_init, fixture_close);
    tcase_add_loop_test(forms, the_committed_file_is_what_would_be_made_now, 0,
                        CONFIG_DOCUMENT_COUNT);
    tcase_add_test(forms, a_missing_template_is_reported);
    tcase_add_loop_test(forms, every_form_has_every_option, 0, 4);
    tcase_add_test(forms, help_fits_a_terminal);
    tcase_add_test(forms, the_example_sets_every_default);
    tcase_add_test(forms, the_effective_values_read_back);
    suite_add_tcase(suite, forms);
    return suite;
}

ATTN_TEST_MAIN(config_print_suite)
