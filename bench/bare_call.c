/* SPDX-License-Identifier: Apache-2.0 */
/* See bare_call.h. */
#include "bench/bare_call.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
    fprintf(stderr, "benchmark: %s\n", what);
    exit(1);
}

static void *touched(size_t bytes) {
    const size_t rounded = (bytes + 64) / 64 * 64;
    void *memory = aligned_alloc(64, rounded);
    if (memory == NULL)
        fail("there is no memory");
    return memset(memory, 0, rounded);
}

float *bare_random(size_t count) {
    float *values = touched(count * sizeof(float));
    uint64_t state = 88172645463325252u;
    for (size_t n = 0; n < count; n++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        values[n] = (float)(state >> 40) * 0x1p-23f - 1.0f;
    }
    return values;
}

static void step(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint) {
    struct bare_call *bare = (struct bare_call *)job;
    (void)index;
    attn_execute_next(&bare->call, &bare->plan, &bare->result, bare->heads, workspace, checkpoint);
}

static bool finished(struct attn_job *job) {
    struct bare_call *bare = (struct bare_call *)job;
    atomic_store(&bare->done, true);
    return false;
}

void bare_call_open(struct bare_call *bare, size_t threads) {
    struct attn_error error = {0};
    const struct attn_limits limits = {.result_bytes = (size_t)1 << 34, .flops = 1e18};
    memset(&bare->job, 0, sizeof bare->job);
    bare->scheduler = NULL;
    if (attn_call_init(&bare->call, &bare->request, &error) != ATTN_OK ||
        attn_plan_make(&bare->call, &limits, &bare->plan, &bare->result, &error) != ATTN_OK ||
        (threads > 1 && attn_scheduler_create(threads - 1, 0, &bare->scheduler, &error) != ATTN_OK))
        fail(error.detail);
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        if (bare->result.tensors[n].wanted)
            bare->result.tensors[n].data = touched(bare->result.tensors[n].bytes);
    bare->heads = attn_heads_open(&bare->call, &bare->plan, threads,
                                  touched(attn_heads_bytes(&bare->plan, threads)));
    bare->workspace = touched(bare->plan.workspace_bytes);
}

void bare_call_run(void *bare_call) {
    struct bare_call *bare = bare_call;
    attn_heads_reset(bare->heads);
    bare->job.step = step;
    bare->job.finished = finished;
    bare->job.steps = bare->plan.tasks;
    bare->job.workspace_bytes = bare->plan.workspace_bytes;
    if (bare->scheduler == NULL) {
        attn_job_run_inline(&bare->job, bare->workspace);
        return;
    }
    atomic_store(&bare->done, false);
    attn_scheduler_submit(bare->scheduler, &bare->job);
    while (attn_scheduler_help(bare->scheduler, &bare->job, bare->workspace,
                               bare->plan.workspace_bytes))
        continue;
    while (!atomic_load(&bare->done)) /* for what is left of one step, at most */
        sched_yield();
}

void bare_call_close(struct bare_call *bare) {
    attn_scheduler_free(&bare->scheduler);
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        free(bare->result.tensors[n].data);
    attn_heads_close(bare->heads);
    free(bare->heads);
    attn_call_close(&bare->call);
    free(bare->workspace);
}
