# SPDX-License-Identifier: Apache-2.0
"""Faults in the key/value cache and the calls over it; rows as in faults_arithmetic.py."""
POOL = "core/kv_pool.c"
TABLE = "core/kv_table.c"
CACHE = "core/kv_cache.c"
MODEL = "core/kv_model.c"
APPEND = "core/kv_append.c"
WRITE = "core/kv_write.c"
WRITE_ROWS = "core/kv_write_rows.h"
VIEW = "core/kv_view.c"
CALL = "core/call_view.c"
INTERNAL = "core/mask_internal.h"
GLOBAL = "core/mask_global.c"
DILATED = "core/mask_dilated.c"
PACK = "core/kernels/fused_pack.c"
PAGES = "core/kernels/fused_pages.c"
DECODE = "core/kernels/decode_set.h"
OPERAND = "core/kernels/operand.h"
BATCH = "core/batch.c"

FAULTS = [
    ("cache: a fork writes into its origin's page", APPEND, "if (attn_kv_page_is_shared(*page)) {",
     "if (false) {", "right until both go on"),
    ("cache: a fork adds to its origin's table", TABLE,
     "if (old == NULL || attn_kv_table_is_shared(old) || old->room < room) {",
     "if (old == NULL || old->room < room) {", "right while there is room for neither"),
    ("cache: a copied page has rows past the last", APPEND,
     "attn_kv_zero_lanes(model, page, rows, ATTN_KV_PAGE);", "(void)rows;", "nobody looks there"),
    ("cache: rows that were cut off stay in a page", CACHE,
     "layer->stale = true;", "layer->stale = false;",
     "they are zeroed where the page is not shared"),
    ("cache: an aborted append stays in the last page", APPEND,
     "attn_min_size(rows + append->count, ATTN_KV_PAGE)", "rows", "nobody looks there"),
    ("cache: pages of an aborted append stay", APPEND,
     "    drop_pages(layer->table, keep);\n    if (rows > 0)", "    if (rows > 0)",
     "the next append takes them"),
    ("cache: pages of an append that failed stay", APPEND,
     "            drop_pages(layer->table, before);\n", "", "the next append takes them"),
    ("cache: a page that was used is taken as new", MODEL,
     "h < model->Hkv && page->used; h++", "h < model->Hkv && false; h++",
     "memory from the system is zeros"),
    ("cache: the budget is of one size", POOL, "        release_spare(other);",
     "        (void)other;", "there is one size in most services"),
    ("cache: a page too many fits the budget", POOL,
     "return pool->budget >= bytes && pool->used <= pool->budget - bytes;",
     "return pool->used <= pool->budget;", "bytes are added later"),
    ("cache: the window begins a token late", APPEND, "(first_query - left) / ATTN_KV_PAGE",
     "(first_query - left + ATTN_KV_PAGE) / ATTN_KV_PAGE", "rounding up"),
    ("cache: the last answer cannot be had again", APPEND, "evict(layer, append->position);",
     "evict(layer, layer->length);", "the next query sees no more"),
    ("cache: sinks are evicted", APPEND, "(sinks + ATTN_KV_GAP_ALIGN - 1) / ATTN_KV_GAP_ALIGN",
     "sinks / ATTN_KV_GAP_ALIGN", "rounding down"),
    ("cache: a view reaches into the gap", CACHE,
     "position - left >= layer->gap.key + layer->gap.count);",
     "position - left >= layer->gap.count);", "right without sinks"),
    ("cache: capacity counts from 0 again", APPEND,
     "count > cache->model->capacity - at->length", "count > cache->model->capacity",
     "right for the first append"),
    ("cache: a cut asks one layer", CACHE, "if (length > layer->length)",
     "if (n == 0 && length > layer->length)", "layers are alike"),
    ("cache: keys are turned from 0 on in each append", WRITE,
     "call.rope.k_offset = (int64_t)position;", "call.rope.k_offset = 0 * (int64_t)position;",
     "right for the first append"),
    ("cache: exported keys are turned again", WRITE,
     "model->rope.dims > 0 && !rows->rotated", "model->rope.dims > 0", "snapshots are seldom"),
    ("cache: a panel is filled from its first lane", WRITE_ROWS,
     "panel + (lane + r) * model->element", "panel + (0 * lane + r) * model->element",
     "right for whole panels"),
    ("cache: all heads have the first one's values", VIEW,
     ".sh = (ptrdiff_t)(ATTN_KV_PAGE * (model->D + model->Dv)),", ".sh = 0,", "right for one head"),
    ("cache: keys behind the gap stand before it", INTERNAL,
     "keys = attn_max_size(keys, gap->key + gap->count) - gap->count;", "(void)0;",
     "right until something is evicted"),
    ("cache: global tokens are numbers of keys", GLOBAL,
     "const int64_t first = attn_mask_key_position(space, tile->key);",
     "const int64_t first = (int64_t)tile->key;", "right until something is evicted"),
    ("cache: strides count numbers of keys", DILATED,
     "(uint64_t)attn_mask_key_position(space, tile->key) + keys.begin / 64 * 64;",
     "(uint64_t)tile->key + keys.begin / 64 * 64;", "right until something is evicted"),
    ("cache: sinks are as many as there are keys", CALL,
     "attn_min_size((size_t)view->window.sinks, view->keys)", "view->keys", "short sessions"),
    ("cache: calls are not causal", CALL, "if (!request->kv_all) {", "if (false) {",
     "one query sees all keys anyhow"),
    ("cache: the call's own mask is left out", CALL,
     "{nodes, own->count, own->count > 0}", "{nodes, own->count, 0}", "sessions have few masks"),
    ("cache: packed panels are the first head's", PACK,
     "attn_operand_paged_row(from, task->hkv, key), 1,",
     "attn_operand_paged_row(from, 0, key), 1,", "right for one head"),
    ("cache: each block has the first one's keys", PAGES, "&task->call->k, piece->key,",
     "&task->call->k, 0,", "right for one block"),
    ("cache: the last dimensions are no part of a score", DECODE,
     "    for (; d < D; d++)\n        add_panels", "    for (; false; d++)\n        add_panels",
     "heads are as wide as some chains"),
    ("cache: chains are not added up", DECODE,
     "own[n] += own[half * width + n];", "own[n] += 0 * own[half * width + n];",
     "the first one has most"),
    ("cache: a row is the first of its panel", OPERAND,
     "(ptrdiff_t)(row % ATTN_KV_PANEL) * operand->st;", "0 * operand->st;", "a first test has one"),
    ("batch: all steps are the first call's", BATCH, "return &batch->items[low];",
     "return &batch->items[0];", "sessions of one task"),
]
