/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration: options.def as a struct, filled from defaults < file < ATTENTIOND_*
 * variables < flags, checked as a whole, and printed as help and documentation. It refuses unknown
 * names, values outside their range and values that contradict each other, and opens no socket.
 *
 *     enum config_action action = config_load(&config, argc, argv, environ, &error);
 *     if (action == CONFIG_RUN && !config_resolve_auto(&config, "", &error))
 *         action = CONFIG_REJECTED;
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    CONFIG_HOST_SIZE = 254,
    CONFIG_STRING_SIZE = 1001,
    CONFIG_PATH_SIZE = 4096,
    CONFIG_ERROR_SIZE = 6144,
};

/* Where to listen. host is an IPv4 or IPv6 address without brackets, or a host name; or, where
   is_path is set, the path of a Unix socket, and port is 0. */
struct config_address {
    char host[CONFIG_HOST_SIZE];
    uint16_t port;
    bool is_path;
};

enum { CONFIG_ADDRESSES_MAX = 4 };

struct config_addresses {
    struct config_address items[CONFIG_ADDRESSES_MAX];
    size_t count; /* 0 only where the option may be empty */
};

/* The words of the option `log`, in their order. */
enum config_log { CONFIG_LOG_OFF, CONFIG_LOG_ERRORS, CONFIG_LOG_ALL };

/* The words of the option `socket_mode`, in their order. */
enum config_socket_mode { CONFIG_MODE_0600, CONFIG_MODE_0660, CONFIG_MODE_0666 };

/* Where a value came from, weakest first. CONFIG_AUTO marks a value the machine decided. */
enum config_source { CONFIG_DEFAULT, CONFIG_AUTO, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };

struct config_origin {
    enum config_source source;
    unsigned line; /* in the file, counted from 1; else 0 */
};

/* CONFIG_ID_max_body and so on, in the order of options.def. */
enum config_id {
#define SECTION(title)
#define OPTION(name, type, unit, min, def, max, sentence) CONFIG_ID_##name,
#include "config/options.def"
#undef OPTION
#undef SECTION
    CONFIG_ID_COUNT
};

#define CONFIG_FIELD_ADDRESSES(name) struct config_addresses name;
#define CONFIG_FIELD_STRING(name) char name[CONFIG_STRING_SIZE];
#define CONFIG_FIELD_PATH(name) char name[CONFIG_STRING_SIZE];
#define CONFIG_FIELD_CHOICE(name) unsigned name;
#define CONFIG_FIELD_INTEGER(name) uint64_t name;
#define CONFIG_FIELD_BYTES(name) uint64_t name;
#define CONFIG_FIELD_DURATION(name) uint64_t name##_ms;
#define CONFIG_FIELD_BOOL(name) bool name;

/*
 * One field per option, in plain C types: listen (items, count), threads, max_body (bytes),
 * queue_timeout_ms, … It owns no memory and may be copied.
 */
struct attn_config {
#define SECTION(title)
#define OPTION(name, type, unit, min, def, max, sentence) CONFIG_FIELD_##type(name)
#include "config/options.def"
#undef OPTION
#undef SECTION
    struct config_origin origin[CONFIG_ID_COUNT];
    char file[CONFIG_PATH_SIZE];       /* the configuration file read, or "" */
    char key_name[CONFIG_STRING_SIZE]; /* of --make-key, or "" */
};

/* One or more sentences for the operator, without a newline at the end. */
struct config_error {
    char text[CONFIG_ERROR_SIZE];
};

/* What the command line asks for. */
enum config_action {
    CONFIG_RUN,
    CONFIG_CHECK,    /* --check-config: resolve, print the effective values, exit 0 */
    CONFIG_HELP,     /* --help: config_print_help, exit 0 */
    CONFIG_VERSION,  /* --version, exit 0 */
    CONFIG_HEALTH,   /* --health: ask the daemon that has this configuration, exit 0 or 1 */
    CONFIG_MAKE_KEY, /* --make-key: print a key with the name config->key_name, exit 0 */
    CONFIG_REJECTED, /* print error->text, exit 2 */
};

/*
 * Fills *config from all four layers. *borrows* argv and the NULL-terminated envp for the call.
 * After CONFIG_REJECTED, *config is not to be used and error->text names the source, the value and
 * what is allowed; after CONFIG_HELP, CONFIG_VERSION and CONFIG_MAKE_KEY nothing but the flags has
 * been looked at.
 */
enum config_action config_load(struct attn_config *config, int argc, char *const argv[],
                               char *const envp[], struct config_error *error);

/* What this process may use of its machine. */
struct config_machine {
    unsigned affinity_cpus; /* CPUs the process may run on */
    unsigned quota_cpus;    /* CPU quota of the cgroup, rounded up; 0 = none */
    uint64_t memory_bytes;  /* the least of RAM and every cgroup limit; 0 = unknown */
    bool memory_is_cgroup;  /* a cgroup limit is the least */
};

/*
 * Reads the machine: sched_getaffinity, and below the directory `root` ("" for the real ones)
 * /proc/meminfo, /proc/self/cgroup and the cgroup v1 and v2 limits of this group and its parents.
 * What is missing or unreadable sets no limit.
 */
void config_machine_probe(struct config_machine *machine, const char *root);

/*
 * Replaces the automatic values (threads = 0, memory_budget = 0) by the machine's and makes the
 * options agree: a default that exceeds another option is lowered to it, a chosen value is
 * rejected. Returns false with error->text set on a contradiction.
 */
bool config_apply_machine(struct attn_config *config, const struct config_machine *machine,
                          struct config_error *error);

/* config_machine_probe, then config_apply_machine. */
bool config_resolve_auto(struct attn_config *config, const char *root, struct config_error *error);

/* The text of --help: usage, every option with its default and range, exit status. */
void config_print_help(FILE *out);
/* A configuration file with every option commented out at its default. */
void config_print_example(FILE *out);
/* Every option as Markdown tables, one per section. */
void config_print_markdown(FILE *out);
/* Every option as an mdoc(7) list. */
void config_print_man(FILE *out);
/* The values of *config with their sources, in the form of a configuration file. */
void config_print_effective(const struct attn_config *config, FILE *out);

/* A file of the project that is made from options.def. */
struct config_document {
    const char *path;          /* relative to the project's root */
    const char *template_path; /* its line @OPTIONS@ is replaced; NULL where print makes it all */
    void (*print)(FILE *out);
};
enum { CONFIG_DOCUMENT_COUNT = 3 };
extern const struct config_document config_documents[CONFIG_DOCUMENT_COUNT];

/* Writes the document as it should be; false when its template cannot be read. */
bool config_generate(const struct config_document *document, FILE *out);

#endif
