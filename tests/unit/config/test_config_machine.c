/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine allows, read from control groups made up in a directory, and how automatic
 * values and options that must agree follow from it.
 */
#include "tests/support/test_main.h"
#include "tests/unit/config/config_fixture.h"

#include <sched.h>

#define MIB(n) ((uint64_t)(n) << 20)

static struct config_machine probe(void) {
    struct config_machine machine;
    config_machine_probe(&machine, fixture.directory);
    return machine;
}

static void ram_of_8_gib(void) {
    fixture_text("proc/meminfo", "MemFree: 1 kB\nMemTotal:        8388608 kB\nBuffers: 2 kB\n");
}

START_TEST(nothing_readable_sets_no_limit) {
    const struct config_machine machine = probe();
    ck_assert_uint_eq(machine.memory_bytes, 0);
    ck_assert_uint_eq(machine.quota_cpus, 0);
    cpu_set_t set;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    ck_assert_int_eq((int)machine.affinity_cpus, CPU_COUNT(&set));
}
END_TEST

START_TEST(affinity_follows_the_process) {
    cpu_set_t set, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &set))
            CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_uint_eq(probe().affinity_cpus, 1);
}
END_TEST

START_TEST(ram_alone) {
    ram_of_8_gib();
    ck_assert_uint_eq(probe().memory_bytes, MIB(8192));
    ck_assert(!probe().memory_is_cgroup);
}
END_TEST

/* One fake machine with 8 GiB: files as name, text, name, text; and what is to be read. */
static const struct machine_case {
    const char *files[12];
    uint64_t memory_bytes;
    unsigned quota_cpus;
} machine_cases[] = {
    /* v2 in a container with a namespace of its own. */
    {{"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "536870912\n",
      "sys/fs/cgroup/cpu.max", "150000 100000\n"},
     MIB(512),
     2},
    /* v2, no limits. */
    {{"proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "max\n",
      "sys/fs/cgroup/a/cpu.max", "max 100000\n"},
     MIB(8192),
     0},
    /* v2: the group above is the tighter one in memory, the own one in CPUs. */
    {{"proc/self/cgroup", "0::/pod/box\n", "sys/fs/cgroup/pod/memory.max", "1048576000\n",
      "sys/fs/cgroup/pod/box/memory.max", "2097152000\n", "sys/fs/cgroup/pod/cpu.max",
      "400000 100000\n", "sys/fs/cgroup/pod/box/cpu.max", "300000 100000\n"},
     UINT64_C(1048576000),
     3},
    /* v2: throttling above memory.high comes before memory.max. */
    {{"proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "1073741824\n",
      "sys/fs/cgroup/a/memory.high", "805306368\n"},
     MIB(768),
     0},
    /* v2: a limit above the RAM is none. */
    {{"proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "17179869184\n"}, MIB(8192), 0},
    /* v2: a path outside the namespace leaves the mount point. */
    {{"proc/self/cgroup", "0::/../../x\n", "sys/fs/cgroup/memory.max", "536870912\n"}, MIB(512), 0},
    /* v1, controllers mounted together, the host's path not visible here. */
    {{"proc/self/cgroup", "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n",
      "sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n",
      "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n",
      "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
     MIB(256),
     1},
    /* v1, one mount a controller, a group below, no limit written as v1 does. */
    {{"proc/self/cgroup", "5:memory:/g\n3:cpu,cpuacct:/g\n0::/\n",
      "sys/fs/cgroup/memory/g/memory.limit_in_bytes", "9223372036854771712\n",
      "sys/fs/cgroup/cpu/g/cpu.cfs_quota_us", "-1\n", "sys/fs/cgroup/cpu/g/cpu.cfs_period_us",
      "100000\n"},
     MIB(8192),
     0},
    /* v1 with v2 beside it. */
    {{"proc/self/cgroup", "5:memory:/g\n0::/h\n", "sys/fs/cgroup/memory/g/memory.limit_in_bytes",
      "1073741824\n", "sys/fs/cgroup/unified/h/cpu.max", "200000 100000\n"},
     MIB(1024),
     2},
    /* v2: a group above that has fewer CPUs, and one of more than can be counted. */
    {{"proc/self/cgroup", "0::/pod/box\n", "sys/fs/cgroup/pod/box/cpu.max", "400000 100000\n",
      "sys/fs/cgroup/pod/cpu.max", "100000 100000\n", "sys/fs/cgroup/cpu.max",
      "18446744073709551615 1\n"},
     MIB(8192),
     1},
    /* v1: a quota without its period, or of a period of nothing. */
    {{"proc/self/cgroup", "3:cpu:/g\n", "sys/fs/cgroup/cpu/g/cpu.cfs_quota_us", "50000\n",
      "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us",
      "0\n"},
     MIB(8192),
     0},
    /* Files that make no sense set no limit. */
    {{"proc/self/cgroup", "nonsense\n::::\n\n0::/a\n", "sys/fs/cgroup/a/memory.max", "lots\n",
      "sys/fs/cgroup/a/cpu.max", "100000 0\n", "sys/fs/cgroup/memory.max",
      "99999999999999999999999\n", "sys/fs/cgroup/cpu.max", "100000\n"},
     MIB(8192),
     0},
};

START_TEST(control_groups_limit_the_machine) {
    const struct machine_case *machine_case = &machine_cases[_i];
    ram_of_8_gib();
    for (const char *const *file = machine_case->files; *file != NULL; file += 2)
        fixture_text(file[0], file[1]);
    const struct config_machine machine = probe();
    ck_assert_uint_eq(machine.memory_bytes, machine_case->memory_bytes);
    ck_assert_int_eq(machine.memory_is_cgroup, machine_case->memory_bytes < MIB(8192));
    ck_assert_uint_eq(machine.quota_cpus, machine_case->quota_cpus);
}
END_TEST

static const struct config_machine big = {
    .affinity_cpus = 8, .quota_cpus = 0, .memory_bytes = MIB(8192)};

/* Loads the flags and applies a machine; the error is in the fixture. */
static bool resolve(char *const argv[], const struct config_machine *machine) {
    assert_accepted(argv, NO_ENVIRONMENT);
    return config_apply_machine(&fixture.config, machine, &fixture.error);
}

/* Without a meminfo that can be read a group's limit is all there is. */
START_TEST(a_limit_stands_where_the_ram_is_not_known) {
    static const char *const texts[] = {"", "MemFree: 1 kB\n",
                                        "MemTotal: 18446744073709551615 kB\n"};
    fixture_text("proc/self/cgroup", "0::/\n");
    fixture_text("sys/fs/cgroup/memory.max", "536870912\n");
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        fixture_text("proc/meminfo", texts[n]);
        ck_assert_uint_eq(probe().memory_bytes, MIB(512));
        ck_assert(probe().memory_is_cgroup);
    }
}
END_TEST

START_TEST(less_than_a_mebibyte_is_shared_as_it_is) {
    const struct config_machine machine = {.memory_bytes = 1 << 20, .affinity_cpus = 1};
    ck_assert(resolve(NO_ARGS, &machine));
    ck_assert_uint_eq(fixture.config.memory_budget, 1 << 19);
}
END_TEST

START_TEST(automatic_values_come_from_the_machine) {
    ck_assert(resolve(NO_ARGS, &big));
    ck_assert_uint_eq(fixture.config.threads, 8);
    ck_assert_uint_eq(fixture.config.memory_budget, MIB(4096));
    ck_assert_uint_eq(fixture.config.sessions_memory, MIB(2048));
    ck_assert_uint_eq(fixture.config.max_body, MIB(1024));
    ck_assert_int_eq(fixture.config.origin[CONFIG_ID_threads].source, CONFIG_AUTO);
    ck_assert_int_eq(fixture.config.origin[CONFIG_ID_memory_budget].source, CONFIG_AUTO);
    ck_assert_int_eq(fixture.config.origin[CONFIG_ID_max_body].source, CONFIG_DEFAULT);
}
END_TEST

static const struct threads_case {
    unsigned affinity_cpus, quota_cpus;
    uint64_t threads;
} threads_cases[] = {{8, 3, 3}, {2, 3, 2}, {8, 0, 8}, {0, 0, 1}, {4096, 0, 1024}};

START_TEST(threads_are_the_lesser_of_affinity_and_quota) {
    const struct config_machine machine = {.affinity_cpus = threads_cases[_i].affinity_cpus,
                                           .quota_cpus = threads_cases[_i].quota_cpus};
    ck_assert(resolve(NO_ARGS, &machine));
    ck_assert_uint_eq(fixture.config.threads, threads_cases[_i].threads);
}
END_TEST

START_TEST(chosen_values_stay) {
    ck_assert(resolve(ARGS("--threads=64", "--memory-budget=8GiB", NULL), &big));
    ck_assert_uint_eq(fixture.config.threads, 64);
    ck_assert_uint_eq(fixture.config.memory_budget, MIB(8192));
    ck_assert_int_eq(fixture.config.origin[CONFIG_ID_threads].source, CONFIG_FLAG);
}
END_TEST

START_TEST(unknown_memory_gets_a_budget_all_the_same) {
    const struct config_machine machine = {.affinity_cpus = 1};
    ck_assert(resolve(NO_ARGS, &machine));
    ck_assert_uint_eq(fixture.config.memory_budget, MIB(1024));
    ck_assert_uint_eq(fixture.config.sessions_memory, MIB(512));
    ck_assert(resolve(ARGS("--memory-budget=1PiB", "--sessions-memory=1PiB", NULL), &machine));
}
END_TEST

static const struct connections_case {
    uint64_t memory, each;
    char *argv[4];
    enum config_source source;
} connections_cases[] = {
    {MIB(8192), 128 << 10, {"attentiond", NULL}, CONFIG_DEFAULT},
    {MIB(2048), 64 << 10, {"attentiond", NULL}, CONFIG_AUTO},
    {MIB(64), 32 << 10, {"attentiond", NULL}, CONFIG_AUTO},
    {MIB(64), 128 << 10, {"attentiond", "--max-connections=64", NULL}, CONFIG_DEFAULT},
    {MIB(64), 256 << 10, {"attentiond", "--connection-memory=256k", NULL}, CONFIG_FLAG},
    {0, 128 << 10, {"attentiond", NULL}, CONFIG_DEFAULT},
};

START_TEST(connections_take_an_eighth_of_the_memory) {
    const struct connections_case *const row = &connections_cases[_i];
    const struct config_machine machine = {.affinity_cpus = 1, .memory_bytes = row->memory};
    ck_assert(resolve(row->argv, &machine));
    ck_assert_uint_eq(fixture.config.connection_memory, row->each);
    ck_assert_int_eq(fixture.config.origin[CONFIG_ID_connection_memory].source, row->source);
}
END_TEST

START_TEST(a_small_container_lowers_the_defaults) {
    const struct config_machine machine = {
        .affinity_cpus = 1, .memory_bytes = MIB(256) + 4096, .memory_is_cgroup = true};
    ck_assert(resolve(NO_ARGS, &machine));
    ck_assert_uint_eq(fixture.config.memory_budget, MIB(128));
    ck_assert_uint_eq(fixture.config.max_body, MIB(128));
    ck_assert_uint_eq(fixture.config.max_result, MIB(128));
    ck_assert_uint_eq(fixture.config.json_max_body, MIB(128));
    ck_assert_int_eq(fixture.config.origin[CONFIG_ID_json_max_body].source, CONFIG_AUTO);
}
END_TEST

START_TEST(a_lowered_limit_lowers_the_defaults_below_it) {
    ck_assert(resolve(ARGS("--max-body=64MiB", "--request-timeout=2s", NULL), &big));
    ck_assert_uint_eq(fixture.config.json_max_body, MIB(64));
    ck_assert_uint_eq(fixture.config.queue_timeout_ms, 2000);
    ck_assert(resolve(ARGS("--request-timeout=0", "--queue-timeout=1h", NULL), &big));
    ck_assert_uint_eq(fixture.config.queue_timeout_ms, 3600000);
}
END_TEST

static const struct contradiction {
    const char *flags[2];
    const char *sentence;
} contradictions[] = {
    {{"--max-result=5GiB"},
     "--max-result: max_result = 5GiB exceeds memory_budget = 4GiB (automatic): no such answer "
     "could ever be admitted; lower max_result or raise memory_budget."},
    {{"--max-body=2GiB", "--memory-budget=1GiB"},
     "--max-body: max_body = 2GiB exceeds memory_budget = 1GiB (--memory-budget): no such body "
     "could ever be admitted; lower max_body or raise memory_budget."},
    {{"--json-max-body=2GiB"},
     "--json-max-body: json_max_body = 2GiB exceeds max_body = 1GiB (default): max_body holds for "
     "JSON too; lower json_max_body or raise max_body."},
    {{"--queue-timeout=10m"},
     "--queue-timeout: queue_timeout = 10m exceeds request_timeout = 5m (default): the deadline "
     "ends the wait first; lower queue_timeout or raise request_timeout."},
    {{"--memory-budget=16GiB"},
     "--memory-budget: memory_budget = 16GiB exceeds the 8192 MiB that this machine has; lower "
     "it, or leave it out to take half."},
    {{"--sessions-memory=9GiB"},
     "--sessions-memory: sessions_memory = 9GiB exceeds the 8192 MiB that this machine has; lower "
     "it, or leave it out to take a quarter."},
    {{"--session-ttl=2h", "--max-session-ttl=1h"},
     "--session-ttl: session_ttl = 2h exceeds max_session_ttl = 1h (--max-session-ttl): no session "
     "may ask for so long; lower session_ttl or raise max_session_ttl."},
};

START_TEST(a_contradiction_names_both_values_and_their_sources) {
    const struct contradiction *contradiction = &contradictions[_i];
    ck_assert(!resolve(ARGS((char *)(uintptr_t)contradiction->flags[0],
                            (char *)(uintptr_t)contradiction->flags[1], NULL),
                       &big));
    ck_assert_str_eq(fixture.error.text, contradiction->sentence);
}
END_TEST

START_TEST(a_budget_above_the_control_group_says_so) {
    const struct config_machine machine = {
        .affinity_cpus = 1, .memory_bytes = MIB(512), .memory_is_cgroup = true};
    ck_assert(!resolve(ARGS("--memory-budget=1GiB", NULL), &machine));
    ck_assert_ptr_nonnull(
        strstr(fixture.error.text, "exceeds the 512 MiB that this control group may use;"));
}
END_TEST

START_TEST(resolve_auto_reads_below_its_root) {
    ram_of_8_gib();
    fixture_text("proc/self/cgroup", "0::/\n");
    fixture_text("sys/fs/cgroup/memory.max", "1073741824\n");
    fixture_text("sys/fs/cgroup/cpu.max", "100000 100000\n");
    assert_accepted(NO_ARGS, NO_ENVIRONMENT);
    ck_assert(config_resolve_auto(&fixture.config, fixture.directory, &fixture.error));
    ck_assert_uint_eq(fixture.config.threads, 1);
    ck_assert_uint_eq(fixture.config.memory_budget, MIB(512));
}
END_TEST

START_TEST(the_real_machine_can_be_read) {
    assert_accepted(NO_ARGS, NO_ENVIRONMENT);
    ck_assert_msg(config_resolve_auto(&fixture.config, "", &fixture.error), "%s",
                  fixture.error.text);
    ck_assert_uint_ge(fixture.config.threads, 1);
    ck_assert_uint_ge(fixture.config.memory_budget, MIB(1));
}
END_TEST

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

static Suite *config_machine_suite(void) {
    Suite *suite = suite_create("config_machine");
    TCase *reading = tcase_create("probe");
    tcase_add_checked_fixture(reading, fixture_init, fixture_close);
    tcase_add_test(reading, nothing_readable_sets_no_limit);
    tcase_add_test(reading, affinity_follows_the_process);
    tcase_add_test(reading, ram_alone);
    tcase_add_test(reading, a_limit_stands_where_the_ram_is_not_known);
    tcase_add_loop_test(reading, control_groups_limit_the_machine, 0, COUNT(machine_cases));
    suite_add_tcase(suite, reading);
    TCase *resolving = tcase_create("resolve");
    tcase_add_checked_fixture(resolving, fixture_init, fixture_close);
    tcase_add_test(resolving, automatic_values_come_from_the_machine);
    tcase_add_loop_test(resolving, connections_take_an_eighth_of_the_memory, 0,
                        sizeof connections_cases / sizeof *connections_cases);
    tcase_add_loop_test(resolving, threads_are_the_lesser_of_affinity_and_quota, 0,
                        COUNT(threads_cases));
    tcase_add_test(resolving, chosen_values_stay);
    tcase_add_test(resolving, less_than_a_mebibyte_is_shared_as_it_is);
    tcase_add_test(resolving, unknown_memory_gets_a_budget_all_the_same);
    tcase_add_test(resolving, a_small_container_lowers_the_defaults);
    tcase_add_test(resolving, a_lowered_limit_lowers_the_defaults_below_it);
    tcase_add_loop_test(resolving, a_contradiction_names_both_values_and_their_sources, 0,
                        COUNT(contradictions));
    tcase_add_test(resolving, a_budget_above_the_control_group_says_so);
    tcase_add_test(resolving, resolve_auto_reads_below_its_root);
    tcase_add_test(resolving, the_real_machine_can_be_read);
    suite_add_tcase(suite, resolving);
    return suite;
}

ATTN_TEST_MAIN(config_machine_suite)
