/* SPDX-License-Identifier: Apache-2.0 */
/*
 * application/x-npy: one array of numpy's, which an answer of one tensor may be. It has no place
 * for `meta`. Refused: answers of several tensors, and of bfloat16. As a request it is known but
 * not read, for a call needs several tensors.
 */
#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/codecs/codec_npz.h"
#include "server/codecs/npy_header.h"

/* The only wanted tensor; NULL when there are others, or statistics. */
static const struct attn_result_tensor *only_tensor(const struct attn_result *result) {
    const struct attn_result_tensor *only = NULL;
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        if (!result->tensors[i].wanted)
            continue;
        if (only != NULL || i == ATTN_RESULT_STATS)
            return NULL;
        only = &result->tensors[i];
    }
    return only;
}

/* An answer that is refused needs no memory. */
static bool answer_bytes(const struct attn_call *call, const struct codec_request *request,
                         const struct attn_result *result, size_t *bytes) {
    const struct attn_result_tensor *const only = only_tensor(result);
    (void)call;
    (void)request;
    return attn_add_size(NPY_BYTES, only == NULL ? 0 : only->bytes, bytes);
}

static enum attn_status lay_out(const struct attn_call *call, const struct codec_request *request,
                                struct attn_result *result, struct codec_answer *answer,
                                struct attn_error *error) {
    const struct attn_result_tensor *const only = only_tensor(result);
    *answer = (struct codec_answer){.media_type = CODEC_NPY.media_type};
    if (only == NULL)
        return attn_fail(error, ATTN_BAD_VALUE, "/return",
                         "An answer as application/x-npy is one tensor, but this one has several, "
                         "or statistics. Ask for one, or for application/x-npz.");
    if (npz_check_dtypes(result, error) != ATTN_OK)
        return error->status;
    if (!answer_bytes(call, request, result, &answer->capacity))
        return attn_fail(error, ATTN_RESULT_TOO_LARGE, "",
                         "The answer would be larger than can be addressed.");
    answer->buffer = buffer_take(answer->capacity);
    if (answer->buffer == NULL) {
        codec_answer_close(answer);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this answer now.");
    }
    result->tensors[only - result->tensors].data = (char *)answer->buffer + NPY_BYTES;
    return ATTN_OK;
}

static enum attn_status finish(const struct codec_report *report,
                               const struct codec_request *request,
                               const struct attn_result *result, struct codec_answer *answer,
                               struct attn_error *error) {
    const struct attn_result_tensor *const only = only_tensor(result);
    (void)report;
    (void)request;
    (void)error;
    npy_header_write(answer->buffer, only->dtype, only->rank, only->shape);
    answer->length = answer->capacity;
    return ATTN_OK;
}

const struct codec CODEC_NPY = {
    .name = "npy",
    .media_type = "application/x-npy",
    .encodes = true,
    .advice =
        "The body is one array (.npy), but a call needs several tensors: numpy.savez(file, q=q, "
        "k=k, v=v) writes them into one archive.",
    .answer_bytes = answer_bytes,
    .lay_out = lay_out,
    .finish = finish,
};
