/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/experiments/scaling: random vectors show why scores are divided by the root of d_k. */
#include <assert.h>

#include "server/buffer_pool.h"
#include "server/calls/tensor_call.h"
#include "server/codecs/json_meta.h"
#include "server/handlers.h"
#include "server/numbers/numbers.h"
#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static enum attn_status apply_d_k(struct options *options, struct json_value value,
                                  const char *pointer) {
    return json_value_ints(&options->reader, value, pointer, &options->request->scaling.d_k);
}

/* Whether they are within the limits is decided by attn_scaling_init. */
static enum attn_status apply_int(struct options *options, struct json_value value,
                                  const char *pointer, int64_t *out) {
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX, out);
}

static enum attn_status apply_samples(struct options *options, struct json_value value,
                                      const char *pointer) {
    return apply_int(options, value, pointer, &options->request->scaling.samples);
}

static enum attn_status apply_keys(struct options *options, struct json_value value,
                                   const char *pointer) {
    return apply_int(options, value, pointer, &options->request->scaling.keys);
}

static enum attn_status apply_seed(struct options *options, struct json_value value,
                                   const char *pointer) {
    return apply_int(options, value, pointer, &options->request->scaling.seed);
}

static const struct option OPTIONS[] = {
    {"d_k", OPTION_LIST, apply_d_k},
    {"samples", OPTION_SCALAR, apply_samples},
    {"keys", OPTION_SCALAR, apply_keys},
    {"seed", OPTION_SCALAR, apply_seed},
    {"timeout_ms", OPTION_SCALAR, options_apply_timeout},
};

static const struct options_hint HINTS[] = {
    {"d", "The sizes of the vectors are called d_k"},
    {"dims", "The sizes of the vectors are called d_k"},
    {"n", "The number of products per size is called samples"},
    {NULL, NULL},
};

static const struct codec_schema SCHEMA = {
    .title = "The experiment",
    .members = "d_k, samples, keys and seed",
    .unknown = "the experiment has d_k, samples, keys, seed and timeout_ms",
    .options = OPTIONS,
    .option_count = COUNT(OPTIONS),
    .hints = HINTS,
};

struct scaling_call {
    struct tensor_call tensors; /* without tensors: its codecs and its decoded request */
    struct attn_scaling scaling;
    void *memory;
    const struct attn_scaling_size *sizes;
};

enum {
    FRAME_ROOM = 1024, /* names and numbers around a row's lists, around a size's rows */
    META_ROOM = 1024 + 6 * REQUEST_ID_SIZE,
    NUMBER_ROOM = NUMBER_TEXT_ROOM + 1
};

/* Of the answer's text. The experiment's limits keep it far from any overflow. */
static size_t text_room(const struct attn_scaling *scaling) {
    const size_t row = FRAME_ROOM + 2 * NUMBER_ROOM * scaling->keys;
    return META_ROOM + scaling->count * (FRAME_ROOM + ATTN_DIVISOR_COUNT * row);
}

static enum attn_status lay_out(struct scaling_call *call) {
    struct call_work *work = &call->tensors.work;
    struct codec_answer *answer = &work->answer;
    const size_t room = text_room(&call->scaling);
    if (call_work_reserve(work, room + call->scaling.bytes) != ATTN_OK)
        return work->error.status;
    answer->media_type = call->tensors.out->media_type;
    answer->capacity = room;
    answer->buffer = buffer_take(room);
    call->memory = buffer_take(call->scaling.bytes);
    if (answer->buffer == NULL || call->memory == NULL)
        return attn_fail(&work->error, ATTN_NO_MEMORY, "",
                         "There is no memory for this experiment now.");
    return ATTN_OK;
}

static enum attn_status prepare(struct call_work *work) {
    struct scaling_call *call = (struct scaling_call *)work;
    if (tensor_call_decode(&call->tensors, &SCHEMA) != ATTN_OK ||
        attn_scaling_init(&call->scaling, &call->tensors.request.scaling,
                          &work->exchange->service->limits.call, &work->error) != ATTN_OK)
        return work->error.status;
    work->tasks = 1; /* one sequence of random numbers */
    work->flops = call->scaling.work;
    work->pace = BACKLOG_SCALING;
    return lay_out(call);
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct scaling_call *call = (struct scaling_call *)work;
    (void)task;
    (void)workspace;
    call->sizes = attn_scaling_run(&call->scaling, call->memory, checkpoint);
}

static void write_member(struct json_text *text, const char *name, double value) {
    json_text_literal(text, name);
    json_text_number(text, value);
}

static void write_list(struct json_text *text, const char *name, const double *values,
                       size_t count) {
    json_text_literal(text, name);
    text->length += number_print_array(NUMBER_F64, values, count, text->start + text->length);
    assert(text->length <= text->capacity);
    json_text_literal(text, "]");
}

static void write_row(struct json_text *text, const struct attn_scaling_row *row, const char *name,
                      size_t keys) {
    json_text_literal(text, name);
    write_member(text, "\"divisor\":", row->divisor);
    write_list(text, ",\"scores\":[", row->scores, keys);
    write_list(text, ",\"weights\":[", row->weights, keys);
    write_member(text, ",\"max\":", row->max);
    write_member(text, ",\"entropy\":", row->entropy);
    write_member(text, ",\"gradient_health\":", row->gradient_health);
    json_text_literal(text, "}");
}

static void write_size(struct json_text *text, const struct attn_scaling_size *size, size_t keys) {
    static const char *const names[ATTN_DIVISOR_COUNT] = {
        [ATTN_DIVISOR_ONE] = "{\"divided_by\":\"1\",",
        [ATTN_DIVISOR_ROOT] = ",{\"divided_by\":\"sqrt(d_k)\",",
        [ATTN_DIVISOR_D_K] = ",{\"divided_by\":\"d_k\",",
    };
    json_text_literal(text, "{\"d_k\":");
    json_text_size(text, size->d_k);
    write_member(text, ",\"variance\":", size->variance);
    json_text_literal(text, ",\"rows\":[");
    for (size_t n = 0; n < ATTN_DIVISOR_COUNT; n++)
        write_row(text, &size->rows[n], names[n], keys);
    json_text_literal(text, "]}");
}

static void write_meta(struct json_text *text, const struct scaling_call *call) {
    const struct attn_scaling *scaling = &call->scaling;
    struct codec_report report = {.id = NULL};
    call_work_report(&call->tensors.work, &report);
    json_text_literal(text, "\"meta\":{\"id\":");
    json_text_string(text, report.id);
    json_text_literal(text, ",\"samples\":");
    json_text_size(text, scaling->samples);
    json_text_literal(text, ",\"keys\":");
    json_text_size(text, scaling->keys);
    json_text_literal(text, ",\"seed\":");
    json_text_size(text, scaling->seed);
    json_text_literal(text, ",\"generator\":\"numpy.random.RandomState\"");
    json_meta_timings(text, &report);
    json_text_literal(text, "}");
}

static enum attn_status encode(struct call_work *work) {
    const struct scaling_call *call = (const struct scaling_call *)work;
    struct codec_answer *answer = &work->answer;
    struct json_text text = {.start = answer->buffer, .capacity = answer->capacity};
    json_text_literal(&text, "{\"results\":[");
    for (size_t i = 0; i < call->scaling.count; i++) {
        json_text_literal(&text, i == 0 ? "" : ",");
        write_size(&text, &call->sizes[i], call->scaling.keys);
    }
    json_text_literal(&text, "],");
    write_meta(&text, call);
    json_text_literal(&text, "}\n");
    answer->length = text.length;
    return ATTN_OK;
}

static void close_call(struct call_work *work) {
    struct scaling_call *call = (struct scaling_call *)work;
    buffer_give(call->memory, call->scaling.bytes);
    tensor_call_close(&call->tensors);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .close = close_call,
    .ask_for_less = "Ask for fewer keys, or fewer d_k.",
};

bool scaling_check(struct exchange *exchange, struct problem *problem) {
    return tensor_call_check(exchange, codec_find("json"), false, problem);
}

void scaling_handle(struct exchange *exchange) {
    struct scaling_call *call = call_work_create(exchange, &KIND, sizeof *call);
    if (call != NULL && tensor_call_choose_codecs(&call->tensors, codec_find("json"), false))
        call_work_begin(&call->tensors.work);
}
