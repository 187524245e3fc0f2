/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call that returns its output alone takes beside operands and answer: by what lies in RAM,
 * workers' stacks and all, each in a process of its own. The goal is the packed keys and values of
 * the heads in flight, as many as there are workers, and 4 MiB per worker. Long calls hide most,
 * for what they reserve does not depend on that.
 *
 *   make bench BENCH=memory: memory beside operands and answer, a few seconds
 *   build/release/bench/memory [kernel]
 */
#include "bench/bare_call.h"
#include "bench/child.h"
#include "bench/figure.h"
#include "bench/resident.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { HEADS = 8, D = 64, WINDOW = 256 };

#define MIB 1048576.0
#define PER_WORKER 4.0

struct shape {
    size_t queries, keys;
    bool windowed;
};

static const struct shape SHAPES[] = {
    {4096, 4096, false},  {32768, 32768, true}, {131072, 131072, true},
    {512, 131072, false}, {1, 131072, false},
};

static void measure(const struct shape *shape, const char *kernel) {
    const size_t query[] = {1, HEADS, shape->queries, D};
    const size_t keys[] = {1, HEADS, shape->keys, D};
    struct attn_mask_node node = {.kind = ATTN_MASK_WINDOW, .left = WINDOW - 1};
    struct bare_call bare;
    char what[96], beside[96];
    attn_request_init(&bare.request);
    bare.request.q =
        attn_tensor_view(bare_random(HEADS * shape->queries * D), ATTN_FLOAT32, 4, query);
    bare.request.k = attn_tensor_view(bare_random(HEADS * shape->keys * D), ATTN_FLOAT32, 4, keys);
    bare.request.v = attn_tensor_view(bare_random(HEADS * shape->keys * D), ATTN_FLOAT32, 4, keys);
    bare.request.kernel = kernel;
    bare.request.mask = (struct attn_mask){&node, shape->windowed};
    const double before = resident_begin();
    bare_call_open(&bare, YARDSTICK_THREADS);
    bare_call_run(&bare);
    const double answer = (double)bare.plan.result_bytes / MIB;
    const double packed = YARDSTICK_THREADS * 2.0 * (double)(shape->keys * D) * 4.0 / MIB;
    snprintf(what, sizeof what, "%zu queries, %zu keys%s, by %s", shape->queries, shape->keys,
             shape->windowed ? ", a window" : "", bare.plan.kernel->name);
    snprintf(beside, sizeof beside, "operands %.0f MiB, answer %.0f",
             HEADS * D * 4.0 * (double)(shape->queries + 2 * shape->keys) / MIB, answer);
    figure_print(&(struct figure){.what = what,
                                  .value = resident_most() - before - answer,
                                  .unit = "MiB",
                                  .at_most = packed + YARDSTICK_THREADS * PER_WORKER,
                                  .beside = beside});
}

int main(int argc, char **argv) {
    const char *kernel = argc > 1 ? argv[1] : NULL;
    char machine[256];
    int failures = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    printf("%s; %d heads, D=%d, float32\n", yardstick_machine(machine, sizeof machine), HEADS, D);
    for (size_t n = 0; n < sizeof SHAPES / sizeof *SHAPES; n++) {
        int status;
        const pid_t child = child_fork();
        if (child == 0) {
            measure(&SHAPES[n], kernel);
            exit(0);
        }
        failures += waitpid(child, &status, 0) != child || status != 0;
    }
    return failures > 0;
}
