/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPUs that an I/O thread may use when a group's change after it has left its sender's. The
 * kernel's part is played here, as Linux does it from 6.2 on: what a thread has asked for stays,
 * and it has those of its group's CPUs that are among them.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/http_internal.h"
#include "tests/support/loopback.h"
#include "tests/support/test_main.h"

enum { GROUP = 2, GROWN = 4, LONG = 1 << 20 };

static cpu_set_t asked, group;
static int here, moves;

static bool is_started(void) {
    return CPU_COUNT(&group) > 0; /* libraries ask as well, before any test */
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    (void)pid;
    memset(set, is_started() ? 0 : 1, size);
    if (is_started())
        CPU_AND(set, &asked, &group);
    return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
    cpu_set_t both;
    (void)pid;
    (void)size;
    CPU_AND(&both, set, &group);
    if (CPU_COUNT(&both) == 0) {
        errno = EINVAL;
        return -1;
    }
    asked = *set;
    moves += !CPU_ISSET((unsigned)here, &both);
    return 0;
}

int sched_getcpu(void) {
    return here;
}

static cpu_set_t cpus_from_here(int count) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < count; i++)
        CPU_SET((unsigned)(here + i), &set);
    return set;
}

/* The reader's end of a connection whose client has sent something, from `here`. */
static int reader_of_a_client(void) {
    const struct loopback ends = loopback_open();
    socklen_t bytes = sizeof here;
    ck_assert_int_eq(send(ends.client, "x", 1, 0), 1);
    ck_assert_int_eq(getsockopt(ends.server, SOL_SOCKET, SO_INCOMING_CPU, &here, &bytes), 0);
    close(ends.client);
    return ends.server;
}

static void leave_once(void) {
    const int reader = reader_of_a_client();
    group = cpus_from_here(GROUP);
    moves = 0;
    http_leave_sender(reader, LONG);
    ck_assert_int_eq(moves, 1);
    close(reader);
}

static void assert_has(int count) {
    const cpu_set_t wanted = cpus_from_here(count);
    cpu_set_t has;
    sched_getaffinity(0, sizeof has, &has);
    ck_assert(CPU_EQUAL(&has, &wanted));
}

START_TEST(a_group_that_grows_is_used_whole) {
    memset(&asked, 0xff, sizeof asked);
    leave_once();
    assert_has(GROUP);
    group = cpus_from_here(GROWN);
    assert_has(GROWN);
}
END_TEST

/* As taskset or CPUAffinity= of systemd: what was asked for from outside is no more than that. */
START_TEST(cpus_that_were_asked_for_stay) {
    const int reader = reader_of_a_client();
    group = cpus_from_here(GROWN);
    asked = cpus_from_here(GROUP);
    moves = 0;
    http_leave_sender(reader, LONG);
    ck_assert_int_eq(moves, 1);
    assert_has(GROUP);
    close(reader);
}
END_TEST

static Suite *http_affinity_group_suite(void) {
    Suite *const suite = suite_create("http_affinity_group");
    TCase *const tests = tcase_create("cpus");
    tcase_add_test(tests, a_group_that_grows_is_used_whole);
    tcase_add_test(tests, cpus_that_were_asked_for_stay);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(http_affinity_group_suite)
