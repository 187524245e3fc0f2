/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a decoded snapshot to an empty cache's appends. The file is a stranger's: what it says of
 * itself is checked against its tensors, and these against the cache that it says it makes.
 */
#ifndef SERVER_SESSIONS_SESSION_RESTORE_H
#define SERVER_SESSIONS_SESSION_RESTORE_H

#include "server/codecs/codec.h"

/* A layer's rows, as they are kept. */
struct attn_kv_rows session_restore_rows(const struct codec_session *asked, size_t layer);

/* Begins an append of each layer that has had tokens; the others' stay as they are in `appends`,
   one per layer. Those that are open when this fails end with the cache. Errors: BAD_VALUE, those
   of attn_kv_rows_check and of attn_kv_restore_begin. */
enum attn_status session_restore_open(struct attn_kv_cache *cache,
                                      const struct codec_session *asked,
                                      struct attn_kv_append **appends, struct attn_error *error);

#endif
