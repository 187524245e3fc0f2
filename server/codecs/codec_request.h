/* SPDX-License-Identifier: Apache-2.0 */
/* What every decoder begins with. */
#ifndef SERVER_CODECS_CODEC_REQUEST_H
#define SERVER_CODECS_CODEC_REQUEST_H

#include "server/codecs/codec.h"

/* An empty request with storage of its own. Errors: NO_MEMORY. */
enum attn_status codec_request_start(struct codec_request *request, struct attn_error *error);

#endif
