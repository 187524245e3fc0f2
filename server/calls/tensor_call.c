/* SPDX-License-Identifier: Apache-2.0 */
/* Media types in and out, bodies and answers; see tensor_call.h. */
#include "server/calls/tensor_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/calls/call_team.h"
#include "server/clock.h"

/* "application/json, application/vnd.safetensors" of those that decode, or encode. */
static const char *media_types(const struct codec *only, bool encoding, bool has_map, char *text,
                               size_t size) {
    const struct codec *codec;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; (codec = codec_at(i)) != NULL && used < size; i++)
        if ((only == NULL || only == codec) && (has_map || !codec->draws) &&
            (encoding ? codec->encodes : codec->decodes))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ",
                                     codec->media_type);
    return text;
}

static void refuse_type(const struct codec *only, const struct exchange *exchange,
                        struct problem *problem) {
    const char *const type = exchange->content_type == NULL ? "" : exchange->content_type;
    const char *const advice = codec_advice(type, exchange->body, exchange->body_length);
    char types[160];
    media_types(only, false, false, types, sizeof types);
    if (only == NULL && *advice != '\0')
        problem_set(problem, PROBLEM_MEDIA_TYPE, NULL, "%s Send one of %s.", advice, types);
    else
        problem_set(problem, PROBLEM_MEDIA_TYPE, NULL,
                    "The body's media type \"%.80s\" is not supported; send %s%s.", type,
                    only == NULL ? "one of " : "", types);
}

static void refuse_accept(const struct codec *only, bool has_map, struct problem *problem,
                          const char *accept) {
    char types[160];
    problem_set(
        problem, PROBLEM_NOT_ACCEPTABLE, NULL, "The answer can be had as %s; Accept is \"%.80s\".",
        media_types(only, true, has_map, types, sizeof types), accept == NULL ? "" : accept);
}

/* The answer's codec; NULL when Accept allows none. */
static const struct codec *choose_answer(const char *accept, const struct codec *in,
                                         const struct codec *only, bool has_map) {
    if (only == NULL)
        return codec_for_answer(accept, in, has_map);
    return codec_is_acceptable(accept, only) ? only : NULL;
}

void tensor_call_set_deadline(struct exchange *exchange) {
    int64_t deadline =
        clock_deadline(exchange->began, exchange->service->limits.request_timeout_ms);
    for (size_t i = 0; i < exchange->query_count; i++)
        if (strcmp(exchange->query[i].name, "timeout_ms") == 0) {
            const long long ms = strtoll(exchange->query[i].value, NULL, 10);
            if (ms > 0 && ms < 1000000000) /* decoding judges what is written here */
                deadline = clock_earlier(deadline, clock_deadline(exchange->began, (uint64_t)ms));
        }
    atomic_store(&exchange->deadline, deadline);
}

bool tensor_call_check(struct exchange *exchange, const struct codec *only, bool has_map,
                       struct problem *problem) {
    const struct service_limits *limits = &exchange->service->limits;
    const struct codec *json = codec_find("json");
    bool undecided = false;
    const struct codec *codec = codec_for_request(exchange->content_type, NULL, 0, &undecided);
    if (!undecided && (codec == NULL || (only != NULL && codec != only))) {
        refuse_type(only, exchange, problem);
        return false;
    }
    if (choose_answer(exchange->accept, codec == NULL ? json : codec, only, has_map) == NULL) {
        refuse_accept(only, has_map, problem, exchange->accept);
        return false;
    }
    const bool is_text = codec == NULL || codec == json;
    exchange->body_weight = is_text ? CODEC_JSON_WEIGHT : 1;
    exchange->body_limit = limits->body_bytes;
    if (codec == json)
        exchange->body_limit = attn_min_size(limits->body_bytes, limits->json_body_bytes);
    tensor_call_set_deadline(exchange);
    return true;
}

bool tensor_call_choose_codecs(struct tensor_call *call, const struct codec *only, bool has_map) {
    struct exchange *exchange = call->work.exchange;
    const size_t most = exchange->service->limits.json_body_bytes;
    struct problem problem;
    bool undecided = false;
    call->in = codec_for_request(exchange->content_type, exchange->body, exchange->body_length,
                                 &undecided);
    if (only != NULL && call->in != only)
        call->in = NULL;
    call->out = call->in == NULL ? NULL : choose_answer(exchange->accept, call->in, only, has_map);
    if (call->in != NULL && call->out != NULL) {
        if (call->in != codec_find("json") || exchange->body_length <= most)
            return true;
        exchange_refuse_length(exchange, most, exchange->body_length, false);
        return false;
    }
    if (call->in == NULL)
        refuse_type(only, exchange, &problem);
    else
        refuse_accept(only, has_map, &problem, exchange->accept);
    exchange_refuse(exchange, &problem);
    return false;
}

static enum attn_status charge(void *work, size_t bytes, struct attn_error *error) {
    return call_work_charge(work, bytes, error);
}

/* A body that is no JSON, say, and looks like another of the containers. */
static void tell_mistaken_type(struct tensor_call *call, const struct codec_input *input) {
    struct attn_error *const error = &call->work.error;
    const struct codec *const looks = codec_mistaken(call->in, input->body, input->length);
    if (error->status != ATTN_MALFORMED || looks == NULL)
        return;
    *error = (struct attn_error){0}; /* of errors the first is kept */
    attn_fail(error, ATTN_MALFORMED, "",
              "Content-Type says %s, but the body looks like %s. Send it with that type.",
              call->in->media_type, looks->media_type);
}

enum attn_status tensor_call_decode(struct tensor_call *call, const struct codec_schema *schema) {
    struct exchange *exchange = call->work.exchange;
    call->team = call_team(exchange->service, call->work.checkpoint);
    const struct service_limits *limits = &exchange->service->limits;
    const struct codec_budget budget = {limits->body_bytes, limits->json_body_bytes, charge,
                                        &call->work};
    const struct codec_input input = {.body = exchange->body,
                                      .length = exchange->body_length,
                                      .query = exchange->query,
                                      .query_count = exchange->query_count,
                                      .schema = schema,
                                      .cancelled = &call->work.job.cancelled,
                                      .team = &call->team,
                                      .budget = &budget,
                                      .oip = &call->oip};
    if (input.length == 0)
        return attn_fail(
            &call->work.error, ATTN_MALFORMED, "",
            "The body is empty. Send JSON, or what Content-Type says, with curl by --data-binary "
            "@file; curl sends nothing in place of a file that it cannot read.");
    if (call->in->decode(&input, &call->request, &call->work.error) != ATTN_OK) {
        tell_mistaken_type(call, &input);
        return call->work.error.status;
    }
    return call_work_take_deadline(&call->work, call->request.timeout_ms);
}

enum attn_status tensor_call_lay_out(struct tensor_call *call, const struct attn_call *attention) {
    struct call_work *work = &call->work;
    size_t bytes;
    if (!call->out->answer_bytes(attention, &call->request, &call->result, &bytes))
        return attn_fail(&work->error, ATTN_RESULT_TOO_LARGE, "",
                         "The answer would be larger than any memory. %s",
                         work->kind->ask_for_less);
    if (call_work_reserve(work, bytes) != ATTN_OK)
        return work->error.status;
    return call->out->lay_out(attention, &call->request, &call->result, &work->answer,
                              &work->error);
}

enum attn_status tensor_call_encode(struct tensor_call *call, struct codec_report *report) {
    struct call_work *work = &call->work;
    call_work_report(work, report);
    call->team.checkpoint = work->checkpoint;
    report->team = &call->team;
    return call->out->finish(report, &call->request, &call->result, &work->answer, &work->error);
}

void tensor_call_close(struct tensor_call *call) {
    codec_request_close(&call->request);
}
