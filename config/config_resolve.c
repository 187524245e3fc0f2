/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step: automatic values from the machine, and options that must agree with each other.
 * It lowers a default that exceeds another option, and refuses a chosen value that does.
 */
#include "config/internal.h"

#include <string.h>

enum { THREADS_MAX = 1024 };
static const uint64_t mebibyte = UINT64_C(1) << 20;
/* The budget where neither RAM nor a limit can be read. */
static const uint64_t budget_of_unknown_memory = UINT64_C(1) << 30;

static unsigned usable_cpus(const struct config_machine *machine) {
    unsigned cpus = machine->affinity_cpus;
    if (machine->quota_cpus != 0 && machine->quota_cpus < cpus)
        cpus = machine->quota_cpus;
    if (cpus == 0)
        return 1;
    return cpus < THREADS_MAX ? cpus : THREADS_MAX;
}

/* Half: the other half holds the program, its BLAS buffers and the connections. */
static uint64_t automatic_budget(const struct config_machine *machine) {
    if (machine->memory_bytes == 0)
        return budget_of_unknown_memory;
    const uint64_t half = machine->memory_bytes / 2;
    return half < mebibyte ? half : half / mebibyte * mebibyte;
}

static void format_value(const struct attn_config *config, const struct config_option *option,
                         char *out, size_t size) {
    config_types[option->type].format(option, config_field_view(config, option), out, size);
}

static void place_of(const struct attn_config *config, enum config_id id, char *out, size_t size) {
    config_place(config, &config_options[id], config->origin[id], out, size);
}

/* A number that may not exceed another; where `unlimited` is set, 0 means no limit. */
static const struct agreement {
    enum config_id smaller;
    enum config_id larger;
    bool unlimited;
    const char *reason;
} agreements[] = {
    {CONFIG_ID_max_body, CONFIG_ID_memory_budget, false, "no such body could ever be admitted"},
    {CONFIG_ID_max_result, CONFIG_ID_memory_budget, false, "no such answer could ever be admitted"},
    {CONFIG_ID_json_max_body, CONFIG_ID_max_body, false, "max_body holds for JSON too"},
    {CONFIG_ID_queue_timeout, CONFIG_ID_request_timeout, true, "the deadline ends the wait first"},
};

static bool agree(struct attn_config *config, const struct agreement *agreement,
                  struct config_error *error) {
    const struct config_option *small = &config_options[agreement->smaller];
    const struct config_option *large = &config_options[agreement->larger];
    uint64_t a, b;
    memcpy(&a, config_field(config, small), sizeof a);
    memcpy(&b, config_field(config, large), sizeof b);
    if (a <= b || (agreement->unlimited && b == 0))
        return true;
    if (config->origin[agreement->smaller].source <= CONFIG_AUTO) {
        memcpy(config_field(config, small), &b, sizeof b);
        config->origin[agreement->smaller].source = CONFIG_AUTO;
        return true;
    }
    char a_text[CONFIG_VALUE_SIZE], b_text[CONFIG_VALUE_SIZE];
    char a_place[CONFIG_PATH_SIZE], b_place[CONFIG_PATH_SIZE];
    format_value(config, small, a_text, sizeof a_text);
    format_value(config, large, b_text, sizeof b_text);
    place_of(config, agreement->smaller, a_place, sizeof a_place);
    place_of(config, agreement->larger, b_place, sizeof b_place);
    return config_fail(error, "%s: %s = %s exceeds %s = %s (%s): %s; lower %s or raise %s.",
                       a_place, small->name, a_text, large->name, b_text, b_place,
                       agreement->reason, small->name, large->name);
}

static bool check_budget(const struct attn_config *config, const struct config_machine *machine,
                         struct config_error *error) {
    if (machine->memory_bytes == 0 || config->memory_budget <= machine->memory_bytes)
        return true;
    const struct config_option *option = &config_options[CONFIG_ID_memory_budget];
    char text[CONFIG_VALUE_SIZE];
    char place[CONFIG_PATH_SIZE];
    format_value(config, option, text, sizeof text);
    place_of(config, CONFIG_ID_memory_budget, place, sizeof place);
    return config_fail(error,
                       "%s: memory_budget = %s exceeds the %llu MiB that this %s; lower it, or "
                       "leave it out to take half.",
                       place, text, (unsigned long long)(machine->memory_bytes / mebibyte),
                       machine->memory_is_cgroup ? "control group may use" : "machine has");
}

bool config_apply_machine(struct attn_config *config, const struct config_machine *machine,
                          struct config_error *error) {
    if (config->threads == 0) {
        config->threads = usable_cpus(machine);
        config->origin[CONFIG_ID_threads].source = CONFIG_AUTO;
    }
    if (config->memory_budget == 0) {
        config->memory_budget = automatic_budget(machine);
        config->origin[CONFIG_ID_memory_budget].source = CONFIG_AUTO;
    }
    if (!check_budget(config, machine, error))
        return false;
    for (size_t i = 0; i < sizeof agreements / sizeof agreements[0]; i++)
        if (!agree(config, &agreements[i], error))
            return false;
    return true;
}

bool config_resolve_auto(struct attn_config *config, const char *root, struct config_error *error) {
    struct config_machine machine;
    config_machine_probe(&machine, root);
    return config_apply_machine(config, &machine, error);
}
