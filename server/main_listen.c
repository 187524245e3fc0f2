/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening sockets: opened as configured, or handed over by a supervisor, which then keeps
 * them open for the next daemon; see main_internal.h.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/listener.h"
#include "server/main_internal.h"
#include "server/supervisor.h"

static void add_door(struct doors *doors, int listener, bool is_ops, bool is_inherited) {
    doors->at[doors->count++] =
        (struct door){.listener = listener, .is_ops = is_ops, .is_inherited = is_inherited};
    doors->ops_count += is_ops;
}

/* Operators' addresses and paths are the machine's own, or a network's that is trusted. */
static void mark_tls(struct doors *doors) {
    for (size_t i = 0; i < doors->count; i++)
        doors->at[i].is_tls = !doors->at[i].is_ops && !listener_is_path(doors->at[i].listener);
}

static bool open_all(struct doors *doors, const struct config_addresses *addresses, bool is_ops,
                     mode_t mode) {
    char error[512];
    for (size_t i = 0; i < addresses->count; i++) {
        const struct config_address *address = &addresses->items[i];
        const int listener = address->is_path
                                 ? listener_open_path(address->host, mode, error, sizeof error)
                                 : listener_open(address->host, address->port, error, sizeof error);
        if (listener < 0) {
            main_print_error(error);
            return false;
        }
        add_door(doors, listener, is_ops, false);
    }
    return true;
}

/* The operators' come last, as the HTTP server wants them. */
static void take_over(struct doors *doors, bool is_ops, const struct supervisor_socket *sockets,
                      size_t count) {
    for (size_t i = 0; i < count; i++)
        if (sockets[i].is_ops == is_ops)
            add_door(doors, sockets[i].listener, is_ops, true);
}

/* What was configured could be checked before; where these sockets are, nobody could know. */
static bool check_exposure(const struct doors *doors, const struct attn_config *config) {
    if (config->key_file[0] != '\0' || config->insecure || main_doors_are_local(doors))
        return true;
    main_print_error("other machines reach a socket that was handed over, and there are no keys: "
                     "name a key_file, or say with --insecure that everyone who can connect may "
                     "use the service");
    return false;
}

bool main_listen(struct doors *doors, const struct attn_config *config) {
    static const mode_t modes[] = {
        [CONFIG_MODE_0600] = 0600, [CONFIG_MODE_0660] = 0660, [CONFIG_MODE_0666] = 0666};
    const mode_t mode = modes[config->socket_mode];
    struct supervisor_socket sockets[CONFIG_ADDRESSES_MAX];
    const size_t count = supervisor_take_sockets(sockets, CONFIG_ADDRESSES_MAX);
    take_over(doors, false, sockets, count);
    if (doors->count == 0 && !open_all(doors, &config->listen, false, mode))
        return false;
    take_over(doors, true, sockets, count);
    if (doors->ops_count == 0 && !open_all(doors, &config->ops_listen, true, mode))
        return false;
    if (config->tls_certificate[0] != '\0')
        mark_tls(doors);
    return check_exposure(doors, config);
}

bool main_doors_are_local(const struct doors *doors) {
    bool are_local = true;
    for (size_t i = 0; i < doors->count; i++)
        are_local = are_local && (doors->at[i].is_ops || listener_is_local(doors->at[i].listener));
    return are_local;
}

/* What can be asked for at a place: as addresses, or for a path's socket, to which no browser goes,
 * as words of curl. */
static void print_example(const char *place, bool has_keys, bool has_ops) {
    static const char path_prefix[] = "unix:";
    const bool is_path = strncmp(place, path_prefix, sizeof path_prefix - 1) == 0;
    char url[LISTENER_PLACE_SIZE + sizeof "--unix-socket  http://localhost"];
    snprintf(url, sizeof url, "%s%s%s", is_path ? "--unix-socket " : "",
             is_path ? place + sizeof path_prefix - 1 : place, is_path ? " http://localhost" : "");
    const char *const curl = is_path ? "curl " : "";
    if (!is_path)
        printf("  dashboard   %s/\n", url);
    printf("  description %s%s/v1\n  contract    %s%s/openapi.yaml%s%s%s\n", curl, url, curl, url,
           is_path ? "" : ", ", is_path ? "" : url, is_path ? "" : "/docs");
    if (!has_ops)
        printf("  metrics     %s%s/metrics\n", curl, url);
    printf("Try it:\n  curl -sS %s/v1/attention %s-H 'Content-Type: application/json' "
           "-d '{\"q\":[[1,0],[0,1]],\"k\":[[1,0],[0,1]],\"v\":[[1,2],[3,4]],\"weights\":true}'\n",
           url, has_keys ? "-H \"Authorization: Bearer $KEY\" " : "");
}

static bool are_inherited(const struct doors *doors, bool is_ops) {
    for (size_t i = 0; i < doors->count; i++)
        if (doors->at[i].is_ops == is_ops && doors->at[i].is_inherited)
            return true;
    return false;
}

/* Who set an address that a supervisor's socket takes the place of would look for it in vain. */
static void note_unused(const struct doors *doors, const struct attn_config *config,
                        struct access_log *log) {
    static const struct {
        enum config_id id;
        bool is_ops;
        const char *says;
    } options[] = {
        {CONFIG_ID_listen, false, "listen is not used: the sockets were handed over"},
        {CONFIG_ID_ops_listen, true, "ops_listen is not used: the sockets were handed over"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (config->origin[options[i].id].source > CONFIG_AUTO &&
            are_inherited(doors, options[i].is_ops))
            access_log_event(log, "option", options[i].says);
}

static const char *describe(const struct door *door, char place[LISTENER_PLACE_SIZE]) {
    return listener_describe(door->listener, door->is_tls, place, LISTENER_PLACE_SIZE);
}

void main_announce(const struct doors *doors, const struct attn_config *config, bool has_keys,
                   struct access_log *log) {
    char place[LISTENER_PLACE_SIZE];
    note_unused(doors, config, log);
    for (size_t i = 0; i < doors->count;
         i++) /* before the greeting, which a line would cut in two */
        access_log_event(log, doors->at[i].is_ops ? "listening for operators" : "listening",
                         describe(&doors->at[i], place));
    for (size_t i = 0; i < doors->count; i++)
        printf("attentiond %s on %s%s\n", ATTN_VERSION, describe(&doors->at[i], place),
               doors->at[i].is_ops ? " for operators" : "");
    listener_invite(doors->at[0].listener, doors->at[0].is_tls, place, sizeof place);
    print_example(place, has_keys, doors->ops_count > 0);
    fflush(stdout);
    supervisor_say_ready(describe(&doors->at[0], place));
}

/* A socket that was handed over is the successor's too. */
void main_shut(const struct doors *doors) {
    for (size_t i = 0; i < doors->count; i++)
        if (!doors->at[i].is_inherited)
            listener_shut(doors->at[i].listener);
}

void main_close(const struct doors *doors) {
    for (size_t i = 0; i < doors->count; i++) {
        const struct door *door = &doors->at[i];
        if (!door->is_inherited)
            listener_remove_path(door->listener);
        close(door->listener);
    }
}
