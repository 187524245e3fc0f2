/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process may use of its machine: CPUs by affinity and cgroup quota, memory by RAM and
 * cgroup limits, of its own group and of every group above it. A file that is missing, unreadable
 * or says "max" sets no limit; nothing here fails.
 */
#include "config/internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 1024 };

/* Reads the first line of directory/name. */
static bool read_text(const char *directory, const char *name, char out[TEXT_SIZE]) {
    char path[2 * CONFIG_PATH_SIZE];
    const int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    assert((size_t)length < sizeof path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const bool read = fgets(out, TEXT_SIZE, file) != NULL;
    fclose(file);
    return read;
}

/* A decimal number at the start of text, at least 1: "max" and -1 mean no limit. */
static bool read_positive(const char *text, char **end, uint64_t *out) {
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    const unsigned long long value = strtoull(text, end, 10);
    if (errno != 0 || value == 0)
        return false;
    *out = value;
    return true;
}

static void limit_memory(struct config_machine *machine, const char *directory, const char *name) {
    char text[TEXT_SIZE];
    char *end;
    uint64_t bytes;
    if (!read_text(directory, name, text) || !read_positive(text, &end, &bytes))
        return;
    if (machine->memory_bytes != 0 && bytes >= machine->memory_bytes)
        return;
    machine->memory_bytes = bytes;
    machine->memory_is_cgroup = true;
}

/* Rounds up: one and a half CPUs keep two workers busy, and one worker would leave a third idle. */
static void limit_cpus(struct config_machine *machine, uint64_t quota, uint64_t period) {
    const uint64_t cpus = quota / period + (quota % period != 0);
    if (cpus <= UINT32_MAX && (machine->quota_cpus == 0 || cpus < machine->quota_cpus))
        machine->quota_cpus = (unsigned)cpus;
}

/* v2: "150000 100000", in one file. */
static void read_cpu_v2(struct config_machine *machine, const char *directory) {
    char text[TEXT_SIZE];
    char *rest;
    uint64_t quota, period;
    if (!read_text(directory, "cpu.max", text) || !read_positive(text, &rest, &quota))
        return;
    while (*rest == ' ')
        rest++;
    if (read_positive(rest, &rest, &period))
        limit_cpus(machine, quota, period);
}

static void read_cpu_v1(struct config_machine *machine, const char *directory) {
    char quota_text[TEXT_SIZE], period_text[TEXT_SIZE];
    char *end;
    uint64_t quota, period;
    if (read_text(directory, "cpu.cfs_quota_us", quota_text) &&
        read_text(directory, "cpu.cfs_period_us", period_text) &&
        read_positive(quota_text, &end, &quota) && read_positive(period_text, &end, &period))
        limit_cpus(machine, quota, period);
}

/* Both versions' files: a directory has those of its own version only. */
static void read_group(struct config_machine *machine, const char *directory) {
    limit_memory(machine, directory, "memory.max");
    limit_memory(machine, directory, "memory.high");
    limit_memory(machine, directory, "memory.limit_in_bytes");
    read_cpu_v2(machine, directory);
    read_cpu_v1(machine, directory);
}

/*
 * Reads the group `path` below the mount point and every group above it. Inside a container the
 * path may be the host's and not exist here; then the mount point itself is the container's group,
 * and the walk ends there.
 */
static void read_groups(struct config_machine *machine, const char *mount, const char *path) {
    char directory[CONFIG_PATH_SIZE];
    const size_t mount_length = strlen(mount);
    /* "/../x" is a group outside this namespace, of which nothing can be read. */
    const char *below = strstr(path, "..") != NULL ? "" : path;
    const int written = snprintf(directory, sizeof directory, "%s%s", mount, below);
    assert((size_t)written < sizeof directory);
    size_t length = (size_t)written;
    while (length > mount_length) {
        read_group(machine, directory);
        while (length > mount_length && directory[length - 1] != '/')
            length--;
        if (length > mount_length)
            length--;
        directory[length] = '\0';
    }
    read_group(machine, mount);
}

static void read_mount(struct config_machine *machine, const char *root, const char *name,
                       const char *path) {
    char mount[CONFIG_PATH_SIZE];
    const int length = snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root,
                                name[0] == '\0' ? "" : "/", name);
    assert((size_t)length < sizeof mount); /* the name is a part of a line */
    read_groups(machine, mount, path);
}

/* One line of /proc/self/cgroup: "4:cpu,cpuacct:/group" in v1, "0::/group" in v2. */
static void read_membership(struct config_machine *machine, const char *root, char *line) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL)
        return;
    *path++ = '\0';
    controllers++;
    read_mount(machine, root, controllers, path);
    if (controllers[0] == '\0')
        read_mount(machine, root, "unified", path); /* v2 beside v1 */
    /* v1 may mount "cpu,cpuacct" under that name or under its parts. */
    char *rest = NULL;
    for (char *name = strtok_r(controllers, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest))
        read_mount(machine, root, name, path);
}

static void read_memberships(struct config_machine *machine, const char *root) {
    char path[CONFIG_PATH_SIZE];
    char line[TEXT_SIZE];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL)
        read_membership(machine, root, line);
    fclose(file);
}

static void read_ram(struct config_machine *machine, const char *root) {
    char path[CONFIG_PATH_SIZE];
    char line[TEXT_SIZE];
    uint64_t kilobytes;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (machine->memory_bytes == 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kilobytes) == 1 &&
            __builtin_mul_overflow(kilobytes, UINT64_C(1024), &machine->memory_bytes))
            machine->memory_bytes = 0;
    fclose(file);
}

static unsigned affinity(void) {
    cpu_set_t set;
    /* unreached: the call fails on machines with more CPUs than the set has room for */
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    /* unreached: as above */
    return online > 0 ? (unsigned)online : 1;
}

void config_machine_probe(struct config_machine *machine, const char *root) {
    *machine = (struct config_machine){.affinity_cpus = affinity()};
    read_ram(machine, root);
    read_memberships(machine, root);
}
