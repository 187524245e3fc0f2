/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot says, against its tensors; see session_restore.h. */
#include "server/sessions/session_restore.h"

#include <stdio.h>

#include "core/attention.h"

static int64_t listed(const struct attn_int_list *list, size_t layer) {
    return list->values == NULL ? 0 : list->values[layer];
}

struct attn_kv_rows session_restore_rows(const struct codec_session *asked, size_t layer) {
    return (struct attn_kv_rows){.k = asked->k[layer], .v = asked->v[layer], .rotated = true};
}

static enum attn_status refuse_layer(struct attn_error *error, size_t layer, const char *sentence) {
    char name[40];
    snprintf(name, sizeof name, "layers.%zu.k", layer);
    return attn_fail(error, ATTN_BAD_VALUE, name, "%s", sentence);
}

/* A layer's rows are those that it has, less those that have left it. */
static enum attn_status check_layer(const struct attn_kv_cache *cache,
                                    const struct codec_session *asked, size_t layer,
                                    struct attn_error *error) {
    const struct attn_kv_rows rows = session_restore_rows(asked, layer);
    const int64_t length = listed(&asked->lengths, layer);
    const int64_t key = listed(&asked->gap_keys, layer), gone = listed(&asked->gap_counts, layer);
    size_t count = 0;
    if (rows.k.rank != 3 || rows.v.rank != 3)
        return refuse_layer(error, layer, "The rows of a layer are [Hkv,n,D] and [Hkv,n,Dv].");
    if (attn_kv_rows_check(cache, &rows, &count, error) != ATTN_OK)
        return error->status;
    if (length < 0 || key < 0 || gone < 0 || gone > length || (uint64_t)(length - gone) != count)
        return refuse_layer(error, layer,
                            "The layer's length, less what has left it (gap_counts), is not the "
                            "number of its rows.");
    if (gone > 0 && (uint64_t)key > count)
        return refuse_layer(error, layer,
                            "What has left the layer (gap_keys) did so behind its end.");
    return ATTN_OK;
}

static enum attn_status open_layer(struct attn_kv_cache *cache, const struct codec_session *asked,
                                   size_t layer, struct attn_kv_append **append,
                                   struct attn_error *error) {
    const int64_t length = listed(&asked->lengths, layer);
    const struct attn_key_gap gap = {(size_t)listed(&asked->gap_keys, layer),
                                     (size_t)listed(&asked->gap_counts, layer)};
    if (check_layer(cache, asked, layer, error) != ATTN_OK || length == 0)
        return error->status;
    return attn_kv_restore_begin(cache, layer, (size_t)length, gap, append, error);
}

enum attn_status session_restore_open(struct attn_kv_cache *cache,
                                      const struct codec_session *asked,
                                      struct attn_kv_append **appends, struct attn_error *error) {
    const size_t layers = (size_t)attn_kv_cache_spec(cache)->layers;
    for (size_t layer = 0; layer < layers; layer++)
        if (open_layer(cache, asked, layer, &appends[layer], error) != ATTN_OK)
            return error->status;
    return ATTN_OK;
}
