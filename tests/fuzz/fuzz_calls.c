/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of calls: what is understood is planned, computed when it is small, and answered in every
   encoding that can hold it. */
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "core/executor.h"
#include "core/heads.h"
#include "server/codecs/codec_oip.h"
#include "server/options/options_table.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/backward_team.h"

enum { MOST_BYTES = 1 << 20, MOST_FLOPS = 2000000, ALIGNMENT = 64 };

/* As an I/O thread and its budget do it. */
struct ledger {
    size_t room;
};

static enum attn_status reserve(void *closure, size_t bytes, struct attn_error *error) {
    struct ledger *const ledger = closure;
    if (bytes > ledger->room)
        return attn_fail(error, ATTN_OVERLOADED, "", "There is no room.");
    ledger->room -= bytes;
    return ATTN_OK;
}

void *fuzz_take(size_t bytes) {
    void *const memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    if (memory == NULL)
        abort();
    return memory;
}

void fuzz_compute(const struct attn_call *call, const struct attn_plan *plan,
                  struct attn_result *result) {
    void *const workspace = fuzz_take(plan->workspace_bytes);
    void *const memory = fuzz_take(attn_heads_bytes(plan, 1));
    struct attn_heads *const heads = attn_heads_open(call, plan, 1, memory);
    for (size_t task = 0; task < plan->tasks; task++)
        attn_execute_task(call, plan, result, heads, task, workspace, NULL);
    attn_heads_close(heads);
    free(memory);
    free(workspace);
}

/* A planned call; what is too large for a fuzzer is let be. */
static void compute_and_write(const struct codec *out, const struct codec_request *request,
                              const struct attn_call *call, const struct attn_plan *plan,
                              struct attn_result *result) {
    struct attn_error error = {.status = ATTN_OK};
    struct codec_answer built;
    size_t bytes, pieces = 0;
    const struct number_team team = {run_backwards, &pieces, 8, NULL};
    if (!out->answer_bytes(call, request, result, &bytes) || bytes > 4 * MOST_BYTES ||
        plan->workspace_bytes > 8 * MOST_BYTES || attn_heads_bytes(plan, 1) > 8 * MOST_BYTES ||
        out->lay_out(call, request, result, &built, &error) != ATTN_OK)
        return;
    fuzz_compute(call, plan, result);
    const struct codec_report report = {.id = "fuzz", .call = call, .kernel = "any", .team = &team};
    if (out->finish(&report, request, result, &built, &error) == ATTN_OK &&
        built.offset + built.length > built.capacity)
        abort();
    codec_answer_close(&built);
}

static void answer(const struct codec *out, struct codec_request *request) {
    static const struct attn_limits limits = {MOST_BYTES, MOST_FLOPS};
    struct attn_error error = {.status = ATTN_OK};
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    if (attn_call_init(&call, &request->attention, &error) != ATTN_OK)
        return;
    if (codec_labels_check(request, &call, &error) == ATTN_OK &&
        (out->select == NULL || out->select(&call, &error) == ATTN_OK) &&
        attn_plan_make(&call, &limits, &plan, &result, &error) == ATTN_OK)
        compute_and_write(out, request, &call, &plan, &result);
    attn_call_close(&call);
}

static bool can_answer(const struct codec *out, const struct codec *in) {
    return in == &CODEC_OIP ? out == in : out->encodes && !out->draws;
}

static void decode(const struct codec *in, const struct codec *out, const uint8_t *data,
                   size_t size, const struct oip_head *oip) {
    struct attn_error error = {.status = ATTN_OK};
    struct codec_request request;
    struct ledger ledger = {16 * MOST_BYTES};
    size_t pieces = 0;
    const struct number_team team = {run_backwards, &pieces, 8, NULL};
    const struct codec_budget budget = {4 * MOST_BYTES, MOST_BYTES, reserve, &ledger};
    const struct codec_input input = {
        .body = data,
        .length = size,
        .schema = oip != NULL && oip->model != NULL ? oip->model->schema : &ATTENTION_SCHEMA,
        .team = &team,
        .budget = &budget,
        .oip = oip};
    if (in->decode(&input, &request, &error) != ATTN_OK) {
        if (error.status == ATTN_OK)
            abort();
        return;
    }
    answer(out, &request);
    codec_request_close(&request);
}

/* Each answer changes what its request may say: so a request is read again for each. */
static void run(const struct codec *in, const uint8_t *data, size_t size,
                const struct oip_head *oip) {
    const struct codec *out;
    if (in == &CODEC_OIP)
        decode(in, in, data, size, oip);
    for (size_t i = 0; in != &CODEC_OIP && (out = codec_at(i)) != NULL; i++)
        if (can_answer(out, in))
            decode(in, out, data, size, oip);
}

void fuzz_json(const uint8_t *data, size_t size) {
    run(codec_find("json"), data, size, NULL);
}

void fuzz_safetensors(const uint8_t *data, size_t size) {
    run(codec_find("safetensors"), data, size, NULL);
}

void fuzz_npz(const uint8_t *data, size_t size) {
    run(codec_find("npz"), data, size, NULL);
}

/* Whose media type says nothing. */
void fuzz_guess(const uint8_t *data, size_t size) {
    bool undecided;
    const struct codec *const in =
        codec_for_request("application/octet-stream", data, size, &undecided);
    if (in != NULL)
        run(in, data, size, NULL);
}

/* A first byte of '#' stands for the header that says where the JSON ends: a line of its own. */
static void run_model(size_t model, const uint8_t *data, size_t size) {
    struct oip_head head = {oip_model_at(model), NULL};
    const uint8_t *const end = size > 1 && data[0] == '#' ? memchr(data, '\n', size) : NULL;
    char length[24];
    if (end != NULL && (size_t)(end - data) < sizeof length) {
        memcpy(length, data + 1, (size_t)(end - data) - 1);
        length[end - data - 1] = '\0';
        head.json_length = length;
        size -= (size_t)(end + 1 - data);
        data = end + 1;
    }
    run(&CODEC_OIP, data, size, &head);
}

void fuzz_oip_attention(const uint8_t *data, size_t size) {
    run_model(0, data, size);
}

void fuzz_oip_onnx(const uint8_t *data, size_t size) {
    run_model(1, data, size);
}
