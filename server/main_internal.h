/* SPDX-License-Identifier: Apache-2.0 */
/* Between the main*.c files, the only ones of the server that know config/. */
#ifndef SERVER_MAIN_INTERNAL_H
#define SERVER_MAIN_INTERNAL_H

#include "config/config.h"
#include "core/attention.h"
#include "server/access_log.h"
#include "server/http/http_tls.h"

/* A listening socket; the operators' stand last. */
struct door {
    int listener;
    bool is_ops;
    bool is_tls;
    bool is_inherited; /* a supervisor keeps it open, for the next daemon too */
};

struct doors {
    struct door at[2 * CONFIG_ADDRESSES_MAX];
    size_t count, ops_count;
};

void main_print_error(const char *text);
void main_print_version(void);

/* Has the system allow a descriptor for every connection, or lowers max_connections and logs it. */
void main_raise_descriptors(struct attn_config *config, struct access_log *log);
/* When all is open: whether clients can have some; false after it was said what to do. */
bool main_has_descriptors(const struct attn_config *config);

/* The files of TLS. */
struct http_tls_files main_tls_files(const struct attn_config *config);

/* Whether nobody but this machine can connect. */
bool main_is_on_loopback(const struct config_addresses *addresses);

/* Opens what is configured, or takes over what was handed over instead; false after it was said on
   the standard error what does not work. What is open then is for main_close(). */
bool main_listen(struct doors *doors, const struct attn_config *config);
/* Whether nobody but this machine can connect to any that is not for operators. */
bool main_doors_are_local(const struct doors *doors);
/* Says where the service is: to the terminal, the log and the supervisor. */
void main_announce(const struct doors *doors, const struct attn_config *config, bool has_keys,
                   struct access_log *log);
/* From here on connecting to what was opened here is refused. */
void main_shut(const struct doors *doors);
/* Closes them, and removes the paths that were made here. */
void main_close(const struct doors *doors);

struct service;
/* Sends spans where *config says so; false after it was said on the standard error that it cannot.
 */
bool main_start_tracing(struct service *service, const struct attn_config *config);

/* Asks the daemon that listens where *config says whether it answers; the exit status, 0 if it does
   and 1 after it was said on the standard error why not. */
int main_ask_health(const struct attn_config *config);

/* Fills *config, and does what the command line asks for instead of running. The exit status when
   the program is not to run, or -1. */
int main_configure(struct attn_config *config, int argc, char **argv);

#endif
