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

/* The memory options, 0 being automatic: together they leave a quarter, for the program, its BLAS
   buffers and the connections. */
static const struct share {
    enum config_id id;
    uint64_t divisor;
    const char *words;
} shares[] = {
    {CONFIG_ID_memory_budget, 2, "half"},
    {CONFIG_ID_sessions_memory, 4, "a quarter"},
};

static unsigned usable_cpus(const struct config_machine *machine) {
    unsigned cpus = machine->affinity_cpus;
    if (machine->quota_cpus != 0 && machine->quota_cpus < cpus)
        cpus = machine->quota_cpus;
    if (cpus == 0)
        return 1;
    return cpus < THREADS_MAX ? cpus : THREADS_MAX;
}

static uint64_t automatic_share(const struct config_machine *machine, uint64_t divisor) {
    if (machine->memory_bytes == 0)
        return budget_of_unknown_memory * 2 / divisor;
    const uint64_t part = machine->memory_bytes / divisor;
    return part < mebibyte ? part : part / mebibyte * mebibyte;
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
    {CONFIG_ID_session_ttl, CONFIG_ID_max_session_ttl, false, "no session may ask for so long"},
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

static bool check_share(struct attn_config *config, const struct share *share,
                        const struct config_machine *machine, struct config_error *error) {
    const struct config_option *option = &config_options[share->id];
    uint64_t bytes;
    memcpy(&bytes, config_field(config, option), sizeof bytes);
    if (machine->memory_bytes == 0 || bytes <= machine->memory_bytes)
        return true;
    char text[CONFIG_VALUE_SIZE];
    char place[CONFIG_PATH_SIZE];
    format_value(config, option, text, sizeof text);
    place_of(config, share->id, place, sizeof place);
    return config_fail(
        error,
        "%s: %s = %s exceeds the %llu MiB that this %s; lower it, or leave it out "
        "to take %s.",
        place, option->name, text, (unsigned long long)(machine->memory_bytes / mebibyte),
        machine->memory_is_cgroup ? "control group may use" : "machine has", share->words);
}

static bool take_share(struct attn_config *config, const struct share *share,
                       const struct config_machine *machine, struct config_error *error) {
    void *field = config_field(config, &config_options[share->id]);
    uint64_t bytes;
    memcpy(&bytes, field, sizeof bytes);
    if (bytes == 0) {
        bytes = automatic_share(machine, share->divisor);
        memcpy(field, &bytes, sizeof bytes);
        config->origin[share->id].source = CONFIG_AUTO;
    }
    return check_share(config, share, machine, error);
}

/* All connections together take an eighth of the memory at most, as long as nobody chose otherwise:
   what uploads need to be quick, but never less than a head may need. */
static void limit_connections(struct attn_config *config, const struct config_machine *machine) {
    enum { PART = 8, LEAST = 32 << 10, STEP = 4096 };
    struct config_origin *const origin = &config->origin[CONFIG_ID_connection_memory];
    const uint64_t each = machine->memory_bytes / PART / config->max_connections / STEP * STEP;
    if (machine->memory_bytes == 0 || origin->source > CONFIG_AUTO ||
        each >= config->connection_memory)
        return;
    config->connection_memory = each < LEAST ? LEAST : each;
    origin->source = CONFIG_AUTO;
}

bool config_apply_machine(struct attn_config *config, const struct config_machine *machine,
                          struct config_error *error) {
    if (config->threads == 0) {
        config->threads = usable_cpus(machine);
        config->origin[CONFIG_ID_threads].source = CONFIG_AUTO;
    }
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        if (!take_share(config, &shares[i], machine, error))
            return false;
    limit_connections(config, machine);
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
