/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ATTENTIOND_* variables. An unknown one is refused, for a misspelt limit must not be silent;
 * the exception are the variables that Kubernetes sets in every pod for a service called
 * attentiond or attentiond-something, which nobody wrote and nobody can take out.
 */
#include "config/internal.h"

#include <ctype.h>
#include <string.h>

static const char prefix[] = "ATTENTIOND_";
static const char file_variable[] = "ATTENTIOND_CONFIG";

const char *config_environment_file(char *const envp[]) {
    const size_t length = sizeof file_variable - 1;
    for (; *envp != NULL; envp++)
        if (strncmp(*envp, file_variable, length) == 0 && (*envp)[length] == '=')
            return *envp + length + 1;
    return NULL;
}

static bool contains(const char *text, size_t length, const char *part) {
    return memmem(text, length, part, strlen(part)) != NULL;
}

static bool ends_in(const char *text, size_t length, const char *end) {
    const size_t n = strlen(end);
    return length >= n && memcmp(text + length - n, end, n) == 0;
}

/* …_PORT_8080_TCP, …_PORT_8080_TCP_ADDR and so on. */
static bool has_numbered_port(const char *name, size_t length) {
    static const char mark[] = "_PORT_";
    const char *found = memmem(name, length, mark, sizeof mark - 1);
    return found != NULL && isdigit((unsigned char)found[sizeof mark - 1]);
}

static bool is_service_link(const char *name, size_t length, const char *value) {
    const bool url = strstr(value, "://") != NULL;
    return ends_in(name, length, "_SERVICE_HOST") || ends_in(name, length, "_SERVICE_PORT") ||
           contains(name, length, "_SERVICE_PORT_") || has_numbered_port(name, length) ||
           (url && ends_in(name, length, "_PORT"));
}

static bool set_variable(struct attn_config *config, const char *entry,
                         struct config_error *error) {
    const size_t length = strcspn(entry, "=");
    const char *value = entry[length] == '=' ? entry + length + 1 : "";
    if (length == sizeof file_variable - 1 && memcmp(entry, file_variable, length) == 0)
        return true;
    const struct config_option *option = config_find(entry, length, CONFIG_STYLE_ENVIRONMENT);
    if (option != NULL)
        return config_set(config, option, value, (struct config_origin){CONFIG_ENVIRONMENT, 0},
                          error);
    if (is_service_link(entry, length, value))
        return true;
    return config_reject_name(error, NULL, entry, length, CONFIG_STYLE_ENVIRONMENT);
}

bool config_read_environment(struct attn_config *config, char *const envp[],
                             struct config_error *error) {
    for (; *envp != NULL; envp++)
        if (strncmp(*envp, prefix, sizeof prefix - 1) == 0 && !set_variable(config, *envp, error))
            return false;
    return true;
}
