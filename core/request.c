/* SPDX-License-Identifier: Apache-2.0 */
/* A request in which nothing is given yet. */
#include "core/request.h"

#include <string.h>

void attn_request_init(struct attn_request *request) {
    memset(request, 0, sizeof *request);
    request->q = attn_tensor_none();
    request->k = attn_tensor_none();
    request->v = attn_tensor_none();
    request->bias = attn_tensor_none();
    request->w = attn_tensor_none();
    request->map.stage = ATTN_STAGE_WEIGHTS;
}
