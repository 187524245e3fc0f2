/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line and the configuration ask for; see main_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/auth/auth.h"
#include "server/cors.h"
#include "server/hosts.h"
#include "server/main_internal.h"
#include "server/tracing/tracing.h"

enum { EXIT_REJECTED = 2 };

void main_print_error(const char *text) {
    fprintf(stderr, "attentiond: %s\n", text);
}

bool main_is_on_loopback(const struct config_addresses *addresses) {
    bool on_loopback = true;
    for (size_t i = 0; i < addresses->count; i++) {
        const struct config_address *address = &addresses->items[i];
        const bool is_name = address->host[strspn(address->host, "0123456789.")] != '\0';
        on_loopback = on_loopback && (address->is_path || strcmp(address->host, "localhost") == 0 ||
                                      (!is_name && strncmp(address->host, "127.", 4) == 0) ||
                                      strcmp(address->host, "::1") == 0);
    }
    return on_loopback;
}

/* Nobody is to be let in by an oversight. */
static bool check_exposure(const struct attn_config *config, struct config_error *error) {
    if (config->key_file[0] != '\0' || config->insecure || main_is_on_loopback(&config->listen))
        return true;
    snprintf(error->text, sizeof error->text,
             "listen: other machines reach this address, and there are no keys. Either make one, "
             "`attentiond --make-key NAME`, put the line into a file and name it with key_file; "
             "or say with --insecure that everyone who can connect may use the service.");
    return false;
}

struct http_tls_files main_tls_files(const struct attn_config *config) {
    return (struct http_tls_files){config->tls_certificate, config->tls_key, config->tls_client_ca};
}

static bool check_tls(const struct attn_config *config, struct config_error *error) {
    const struct http_tls_files files = main_tls_files(config);
    if (config->tls_certificate[0] == '\0' && config->tls_key[0] == '\0' &&
        config->tls_client_ca[0] == '\0')
        return true;
    if (config->tls_certificate[0] == '\0' || config->tls_key[0] == '\0') {
        snprintf(error->text, sizeof error->text,
                 "TLS needs tls_certificate and tls_key, both: name the PEM files.");
        return false;
    }
    struct http_tls *tls = http_tls_open(&files, error->text, sizeof error->text);
    http_tls_free(tls);
    return tls != NULL;
}

static bool check_keys(const struct attn_config *config, struct config_error *error) {
    struct auth *auth = auth_open(config->key_file, error->text, sizeof error->text);
    auth_free(auth);
    return auth != NULL;
}

/* What config/ cannot know: kernels, origins, names, keys, and where spans can be sent. */
static bool check_names(const struct attn_config *config, struct config_error *error) {
    struct cors cors;
    if (!cors_read(&cors, config->cors_origins, main_is_on_loopback(&config->listen), error->text,
                   sizeof error->text) ||
        !hosts_check(config->hosts, error->text, sizeof error->text) ||
        !tracing_check(config->otlp_endpoint, error->text, sizeof error->text) ||
        !check_exposure(config, error) || !check_keys(config, error) || !check_tls(config, error))
        return false;
    if (config->kernel[0] == '\0')
        return true;
    const struct attn_kernel *kernel = attn_kernel_find(config->kernel);
    if (kernel != NULL)
        return true;
    char names[ATTN_KERNEL_NAMES_SIZE];
    snprintf(
        error->text, sizeof error->text,
        "kernel: there is no kernel \"%s\" on this machine; there are %s. Leave the option out "
        "to have one chosen.",
        config->kernel, attn_kernel_names(names));
    return false;
}

int main_configure(struct attn_config *config, int argc, char **argv) {
    static struct config_error error;
    enum config_action action = config_load(config, argc, argv, environ, &error);
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) &&
        !config_resolve_auto(config, "", &error))
        action = CONFIG_REJECTED;
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) && !check_names(config, &error))
        action = CONFIG_REJECTED;
    switch (action) {
    case CONFIG_RUN:
        return -1;
    case CONFIG_CHECK:
        config_print_effective(config, stdout);
        return EXIT_SUCCESS;
    case CONFIG_HEALTH:
        return main_ask_health(config);
    case CONFIG_MAKE_KEY:
        if (auth_make_key(config->key_name, stdout, error.text, sizeof error.text)) {
            fputs("The first line is the key: it goes to the client alone. The second belongs into "
                  "the key file.\n",
                  stderr);
            return EXIT_SUCCESS;
        }
        main_print_error(error.text);
        return EXIT_REJECTED;
    case CONFIG_HELP:
        config_print_help(stdout);
        return EXIT_SUCCESS;
    case CONFIG_VERSION:
        main_print_version();
        return EXIT_SUCCESS;
    case CONFIG_REJECTED:
        main_print_error(error.text);
        return EXIT_REJECTED;
    }
    return EXIT_REJECTED;
}
