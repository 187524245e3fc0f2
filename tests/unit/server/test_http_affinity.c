/* SPDX-License-Identifier: Apache-2.0 */
/* Where an I/O thread reads: beside its client's CPU, and with the CPUs it may have as before. */
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/http_internal.h"
#include "tests/support/loopback.h"
#include "tests/support/test_main.h"

enum { LONG = 1 << 20 };

struct scene {
    struct loopback ends;
    cpu_set_t allowed;
};

static struct scene open_scene(void) {
    struct scene scene = {.ends = loopback_open()};
    ck_assert_int_eq(sched_getaffinity(0, sizeof scene.allowed, &scene.allowed), 0);
    return scene;
}

/* The reader's CPU is the client's, which has sent from it. */
static int meet(const struct scene *scene) {
    cpu_set_t one;
    const int cpu = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(send(scene->ends.client, "x", 1, 0), 1);
    ck_assert_int_eq(sched_setaffinity(0, sizeof scene->allowed, &scene->allowed), 0);
    return cpu;
}

/* The kernel may move a thread at any time, so that one try tells nothing. */
static int times_left(const struct scene *scene, uint64_t length) {
    enum { TRIES = 20 };
    int left = 0;
    for (int i = 0; i < TRIES; i++) {
        const int cpu = meet(scene);
        http_leave_sender(scene->ends.server, length);
        left += sched_getcpu() != cpu;
    }
    return left;
}

static void assert_allowed_as_before(const struct scene *scene) {
    cpu_set_t now;
    ck_assert_int_eq(sched_getaffinity(0, sizeof now, &now), 0);
    ck_assert(CPU_EQUAL(&now, &scene->allowed));
}

START_TEST(a_long_body_is_read_beside_its_client) {
    const struct scene scene = open_scene();
    if (CPU_COUNT(&scene.allowed) > 1)
        ck_assert_int_gt(times_left(&scene, LONG), 10);
    assert_allowed_as_before(&scene);
    loopback_close(scene.ends);
}
END_TEST

START_TEST(a_short_body_is_read_where_it_is) {
    const struct scene scene = open_scene();
    ck_assert_int_lt(times_left(&scene, LONG - 1), 10);
    assert_allowed_as_before(&scene);
    loopback_close(scene.ends);
}
END_TEST

/* With one CPU there is nowhere to go. */
START_TEST(the_only_cpu_is_kept) {
    struct scene scene = open_scene();
    const int cpu = sched_getcpu();
    CPU_ZERO(&scene.allowed);
    CPU_SET((unsigned)cpu, &scene.allowed);
    ck_assert_int_eq(times_left(&scene, LONG), 0);
    assert_allowed_as_before(&scene);
    loopback_close(scene.ends);
}
END_TEST

/* As a Unix socket or one that is gone. */
START_TEST(a_socket_that_does_not_tell_moves_nobody) {
    const struct scene scene = open_scene();
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    http_leave_sender(pair[0], LONG);
    http_leave_sender(-1, LONG);
    assert_allowed_as_before(&scene);
    close(pair[0]);
    close(pair[1]);
    loopback_close(scene.ends);
}
END_TEST

static Suite *http_affinity_suite(void) {
    Suite *const suite = suite_create("http_affinity");
    TCase *const tests = tcase_create("aside");
    tcase_add_test(tests, a_long_body_is_read_beside_its_client);
    tcase_add_test(tests, a_short_body_is_read_where_it_is);
    tcase_add_test(tests, the_only_cpu_is_kept);
    tcase_add_test(tests, a_socket_that_does_not_tell_moves_nobody);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(http_affinity_suite)
