/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots as bodies: what is taken for one makes a session, whose own snapshot has its rows. */
#include <assert.h>
#include <stdlib.h>

#include "core/attention.h"
#include "server/codecs/codec_snapshot.h"
#include "server/options/options_table.h"
#include "server/sessions/session_restore.h"
#include "server/sessions/sessions.h"
#include "tests/fuzz/fuzz.h"

/* Each layer has as many rows as it says, and they can be read. */
static void look(const struct attn_kv_cache *cache, const struct codec_session *asked) {
    const size_t layers = (size_t)attn_kv_cache_spec(cache)->layers;
    for (size_t layer = 0; layer < layers; layer++) {
        struct attn_kv_view view;
        struct attn_error error = {.status = ATTN_OK};
        assert(attn_kv_length(cache, layer) == (size_t)asked->lengths.values[layer]);
        if (attn_kv_view_open(cache, layer, NULL, ATTN_KV_NEXT, &view, &error) != ATTN_OK)
            abort();
        char *rows = malloc(view.Hkv * view.keys * (view.D + view.Dv) * sizeof(double) + 1);
        assert(rows != NULL && view.keys == asked->k[layer].shape[1]);
        attn_kv_export(&view, 0, view.keys, rows,
                       rows + view.Hkv * view.keys * view.D * sizeof(double));
        free(rows);
        attn_kv_view_close(&view);
    }
}

static void restore(struct attn_kv_cache *cache, const struct codec_session *asked) {
    const size_t layers = (size_t)attn_kv_cache_spec(cache)->layers;
    struct attn_kv_append **appends = calloc(layers, sizeof *appends);
    struct attn_error error = {.status = ATTN_OK};
    assert(appends != NULL);
    if (session_restore_open(cache, asked, appends, &error) == ATTN_OK) {
        for (size_t layer = 0; layer < layers; layer++) {
            const struct attn_kv_rows rows = session_restore_rows(asked, layer);
            if (appends[layer] == NULL)
                continue;
            attn_kv_append_write(appends[layer], &rows, NULL);
            attn_kv_append_commit(appends[layer]);
        }
        look(cache, asked);
    }
    free(appends);
}

void fuzz_snapshot(const uint8_t *data, size_t size) {
    const struct codec_input input = {
        .body = data, .length = size, .schema = &SESSION_SNAPSHOT_SCHEMA};
    struct codec_request request;
    struct attn_error error = {.status = ATTN_OK};
    struct attn_kv_pool *pool;
    struct attn_kv_cache *cache;
    if (codec_snapshot_read(&input, &request, &error) != ATTN_OK)
        return;
    if (attn_kv_pool_create((size_t)64 << 20, &pool, &error) != ATTN_OK)
        abort();
    if (sessions_make_cache(pool, &request.session, &cache, &error) == ATTN_OK) {
        restore(cache, &request.session);
        attn_kv_cache_free(&cache);
    }
    attn_kv_pool_free(&pool);
    codec_request_close(&request);
}
