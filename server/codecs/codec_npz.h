/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of numpy's containers: application/x-npz, a zip archive of .npy arrays, and
 * application/x-npy, one array, which an answer may be and a request cannot.
 */
#ifndef SERVER_CODECS_CODEC_NPZ_H
#define SERVER_CODECS_CODEC_NPZ_H

#include "server/codecs/codec.h"

extern const struct codec CODEC_NPZ, CODEC_NPY;

bool npz_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                      const struct attn_result *result, size_t *bytes);
enum attn_status npz_answer_lay_out(const struct attn_call *call,
                                    const struct codec_request *request, struct attn_result *result,
                                    struct codec_answer *answer, struct attn_error *error);
enum attn_status npz_answer_finish(const struct codec_report *report,
                                   const struct codec_request *request,
                                   const struct attn_result *result, struct codec_answer *answer,
                                   struct attn_error *error);

/* Refuses a result that numpy has no dtype for. Errors: BAD_DTYPE. */
enum attn_status npz_check_dtypes(const struct attn_result *result, struct attn_error *error);

#endif
