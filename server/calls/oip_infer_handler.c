/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v2/models/{model}/infer: an attention call in the Open Inference Protocol. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/calls/tensor_call.h"
#include "server/handlers.h"

/* The JSON's part of the body as the header says; false for none, and for what decoding refuses. */
static bool read_json_length(const struct exchange *exchange, size_t *length) {
    if (exchange->json_length == NULL || strchr(exchange->json_length, '-') != NULL)
        return false;
    errno = 0;
    const unsigned long long announced = strtoull(exchange->json_length, NULL, 10);
    *length = errno == 0 ? (size_t)announced : SIZE_MAX;
    return true;
}

static bool refuse_json(struct problem *problem, size_t most, size_t length) {
    problem_set(problem, ATTN_BODY_TOO_LARGE, NULL,
                "The JSON of a request may have %zu bytes; this one has %zu. Send the tensors as "
                "bytes behind it, with binary_data_size.",
                most, length);
    problem->limit = (double)most;
    return false;
}

bool oip_infer_check(struct exchange *exchange, struct problem *problem) {
    const struct service_limits *limits = &exchange->service->limits;
    const size_t most = attn_min_size(limits->body_bytes, limits->json_body_bytes);
    const struct oip_model *model = oip_find_model(exchange, problem);
    size_t json;
    if (model == NULL)
        return false;
    exchange->model = 1 + oip_model_index(model);
    if (!read_json_length(exchange, &json)) {
        exchange->body_weight = CODEC_JSON_WEIGHT;
        exchange->body_limit = most;
    } else {
        if (json > most)
            return refuse_json(problem, most, json);
        exchange->body_weight = 1;
        exchange->body_extra = json * (CODEC_JSON_WEIGHT - 1);
        exchange->body_limit = limits->body_bytes;
    }
    tensor_call_set_deadline(exchange);
    return true;
}

void oip_infer_handle(struct exchange *exchange) {
    struct problem problem;
    const struct oip_model *model = oip_find_model(exchange, &problem);
    struct tensor_call *call = attention_call_create(exchange, model->schema);
    if (call == NULL)
        return;
    call->in = call->out = &CODEC_OIP;
    call->oip = (struct oip_head){model, exchange->json_length};
    call_work_begin(&call->work);
}
