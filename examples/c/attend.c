/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention of three tokens with libattention: the output, and the map that it came from.
 *
 *   cc -std=c17 attend.c -o attend $(pkg-config --cflags --libs libattention)
 *   ./attend        computes on the calling thread
 *   ./attend 4      computes on four threads and prints the same bits
 *
 * The memory is all the program's own: the library reads the tensors where they are and writes
 * where it is told. docs/libattention.md says more about each step.
 */
#include <attention/attention.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 3, SIZE = 2, MOST_THREADS = 64 };

/* One call on its way. The job stands first, so that a step finds the rest behind its address. */
struct attend {
    struct attn_job job;
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    struct attn_heads *heads;
};

/* One task of the plan, whichever suits the thread: it stays with a head while it can. */
static void step(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint) {
    struct attend *attend = (struct attend *)job;
    (void)index;
    attn_execute_next(&attend->call, &attend->plan, &attend->result, attend->heads, workspace,
                      checkpoint);
}

/* All tasks are done. True would give the job more steps. */
static bool finished(struct attn_job *job) {
    (void)job;
    return false;
}

/* Memory for the library, which wants it aligned. */
static void *take_memory(size_t bytes, struct attn_error *error) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == NULL)
        attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the computation.");
    return memory;
}

/* On this thread: the workspace, whose size the plan tells, is ours to bring. */
static enum attn_status run_here(struct attend *attend, struct attn_error *error) {
    void *workspace = take_memory(attend->plan.workspace_bytes, error);
    if (workspace == NULL)
        return error->status;
    attn_job_run_inline(&attend->job, workspace);
    free(workspace);
    return ATTN_OK;
}

/* On threads of a scheduler, which brings a workspace for each. A program that serves many calls
 * keeps its scheduler; freeing it waits for the jobs inside. */
static enum attn_status run_on(size_t threads, struct attend *attend, struct attn_error *error) {
    struct attn_scheduler *scheduler;
    if (attn_scheduler_create(threads, 0, &scheduler, error) != ATTN_OK)
        return error->status;
    attn_scheduler_submit(scheduler, &attend->job);
    attn_scheduler_free(&scheduler);
    if (attn_job_lacked_memory(&attend->job))
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for a workspace.");
    return ATTN_OK;
}

/* What is packed of the keys and values is shared by the tasks at them: its memory is ours too. */
static enum attn_status run(size_t threads, struct attend *attend, struct attn_error *error) {
    void *memory = take_memory(attn_heads_bytes(&attend->plan, threads), error);
    if (memory == NULL)
        return error->status;
    attend->heads = attn_heads_open(&attend->call, &attend->plan, threads, memory);
    if (threads == 1)
        run_here(attend, error);
    else
        run_on(threads, attend, error);
    attn_heads_close(attend->heads);
    free(memory);
    return error->status;
}

/* From a request to the results in `output` and `weights`. */
static enum attn_status compute(struct attn_request *request, size_t threads, float *output,
                                float *weights, struct attn_error *error) {
    /* These bound what a stranger's request may cost; here they only have to be large enough. */
    const struct attn_limits limits = {.result_bytes = 1 << 20, .flops = 1e9};
    struct attend attend = {.job = {.step = step, .finished = finished}};

    /* The one gate: whatever is wrong with the request is said here, and nothing is computed. */
    if (attn_call_init(&attend.call, request, error) != ATTN_OK)
        return error->status;

    /* The plan tells the shapes of the results; they get their memory before the arithmetic. */
    if (attn_plan_make(&attend.call, &limits, &attend.plan, &attend.result, error) == ATTN_OK) {
        attend.result.tensors[ATTN_RESULT_OUTPUT].data = output;
        attend.result.tensors[ATTN_RESULT_WEIGHTS].data = weights;
        attend.job.steps = attend.plan.tasks;
        attend.job.workspace_bytes = attend.plan.workspace_bytes;
        run(threads, &attend, error);
    }
    attn_call_close(&attend.call);
    return error->status;
}

static void print(const char *name, const float *rows, size_t width) {
    printf("%s\n", name);
    for (size_t row = 0; row < TOKENS; row++, rows += width) {
        for (size_t column = 0; column < width; column++)
            printf("  %.4f", (double)rows[column]);
        printf("\n");
    }
}

int main(int argc, char **argv) {
    static const float q[TOKENS * SIZE] = {1, 0, 0, 1, 1, 1};
    static const float k[TOKENS * SIZE] = {1, 0, 0, 1, 1, 1};
    static const float v[TOKENS * SIZE] = {10, 20, 30, 40, 50, 60};
    static const size_t shape[] = {TOKENS, SIZE};
    const size_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    if (argc > 2 || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: attend [THREADS], from 1 to %d\n", MOST_THREADS);
        return 2;
    }
    attn_start(); /* once per process, before the first task */

    /* A request borrows its tensors, and its mask its nodes: they stay until the call is closed. */
    struct attn_request request;
    struct attn_mask_node causal = {.kind = ATTN_MASK_CAUSAL};
    attn_request_init(&request);
    request.q = attn_tensor_view(q, ATTN_FLOAT32, 2, shape);
    request.k = attn_tensor_view(k, ATTN_FLOAT32, 2, shape);
    request.v = attn_tensor_view(v, ATTN_FLOAT32, 2, shape);
    request.mask = (struct attn_mask){.nodes = &causal, .count = 1};
    request.returns = ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS;

    float output[TOKENS * SIZE] = {0}, weights[TOKENS * TOKENS] = {0};
    struct attn_error error = {0}; /* zeroed: the first error that is written stays */
    if (compute(&request, threads, output, weights, &error) != ATTN_OK) {
        fprintf(stderr, "attend: %s %s: %s\n", attn_status_name(error.status), error.pointer,
                error.detail);
        return 1;
    }
    print("weights", weights, TOKENS);
    print("output", output, SIZE);
    return 0;
}
