/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of float tasks in tiles of double: wide.h says what for. Included by blas.c. */

/* A run of a task's query rows as a task of its own. */
static struct attn_task part_of(const struct attn_task *task, const struct attn_grid *grid,
                                size_t row, size_t rows) {
    struct attn_task part = *task;
    part.grid = *grid;
    part.row = task->row + row;
    part.rows = rows;
    return part;
}

/* Moves row `from` of double tiles into row `to` of a partial of floats. A sum that a float average
 * of floats cannot have had has an infinite value in it. */
static void take_wide_row(const struct tiles_double *tiles, size_t from,
                          struct attn_partial *partial, size_t to) {
    const size_t Dv = tiles->task->call->Dv;
    const double *wide = tiles->o + from * Dv;
    float *narrow = (float *)partial->o + to * Dv;
    const double l = tiles->l[from];
    const double most = l * (double)FLT_MAX * (1 + 1e-6);
    const double unit = l > 0 ? ldexp(1, ilogb(l) + 2) : 1;
    bool fits = true;
    for (size_t d = 0; d < Dv; d++)
        fits &= !(fabs(wide[d]) > (double)FLT_MAX);
    partial->unit[to] = fits ? 1 : unit;
    for (size_t d = 0; d < Dv; d++)
        narrow[d] = fabs(wide[d]) > most ? (float)copysign(INFINITY, wide[d])
                                         : (float)(wide[d] / partial->unit[to]);
    partial->l[to] = l;
    partial->m[to] = isnan(l) ? NAN : tiles->m[from];
    partial->wide[to] = true;
}

static void widen_run(const struct attn_task *task, void *memory, struct attn_partial *partial,
                      size_t row, size_t rows) {
    const struct attn_grid grid = wide_grid(&task->grid);
    const struct attn_task part = part_of(task, &grid, row, rows);
    struct tiles_double tiles = tiles_open_double(&part, memory);
    tiles.o = (double *)(void *)((char *)memory + tiles_bytes(task->call, &grid, sizeof(double)));
    attend_tiles_double(&tiles);
    for (size_t from = 0; from < tiles.M; from++) {
        const size_t to = from / rows * task->rows + row + from % rows;
        if (isnan(partial->l[to]))
            take_wide_row(&tiles, from, partial, to);
    }
}

/* True when the query row is lost for some head. */
static bool is_lost_row(const struct attn_task *task, const struct attn_partial *partial,
                        size_t row) {
    for (size_t g = 0; g < attn_call_group(task->call); g++)
        if (isnan(partial->l[g * task->rows + row]))
            return true;
    return false;
}

void attn_wide_attend(const struct attn_task *task, void *memory, struct attn_partial *partial) {
    const size_t most = wide_grid(&task->grid).row_tile;
    size_t rows;
    for (size_t row = 0; row < task->rows; row += attn_max_size(rows, 1)) {
        for (rows = 0;
             rows < most && row + rows < task->rows && is_lost_row(task, partial, row + rows);)
            rows++;
        if (attn_checkpoint_stops(task->checkpoint))
            return;
        if (rows > 0)
            widen_run(task, memory, partial, row, rows);
    }
}

/* True when element j of a score row of the block has to be had from double. */
static bool is_lost_score(const struct attn_score_block *block, size_t row, size_t j) {
    return (block->stage == ATTN_STAGE_WEIGHTS && block->wide[row]) ||
           isnan(((const float *)block->out)[row * block->keys + j]);
}

/* True when some head of the query row has such elements among [key, key + keys). */
static bool is_lost_part(const struct attn_task *task, const struct attn_score_block *block,
                         size_t row, size_t key, size_t keys) {
    for (size_t g = 0; g < attn_call_group(task->call); g++)
        for (size_t j = key; j < key + keys; j++)
            if (is_lost_score(block, g * task->rows + row, j))
                return true;
    return false;
}

/* Does the scores [key, key + keys) of the block again for a run of query rows. */
static void widen_part(const struct attn_task *task, void *memory,
                       const struct attn_score_block *block, size_t row, size_t rows, size_t key,
                       size_t keys) {
    const struct attn_grid grid = wide_grid(&task->grid);
    const struct attn_task part = part_of(task, &grid, row, rows);
    struct tiles_double tiles = tiles_open_double(&part, memory);
    const struct attn_piece piece = {.rows = tiles.M,
                                     .key = block->key + key,
                                     .keys = keys,
                                     .class = task->call->mask.count == 0 ? ATTN_TILE_FULL
                                                                          : ATTN_TILE_PARTIAL};
    pack_scoring_double(&tiles, block->stage == ATTN_STAGE_RAW ? 1 : task->call->scale);
    score_keys_double(&tiles, &piece);
    finish_piece_double(&tiles, block->stage, &piece);
    for (size_t from = 0; from < tiles.M; from++) {
        const size_t to = from / rows * task->rows + row + from % rows;
        double *s = tiles.s + from * keys;
        if (block->stage == ATTN_STAGE_WEIGHTS)
            weigh_row_double(tiles.ops, s, keys, block->m[to], block->l[to]);
        for (size_t j = 0; j < keys; j++)
            if (is_lost_score(block, to, key + j))
                ((float *)block->out)[to * block->keys + key + j] = (float)s[j];
    }
}

void attn_wide_scores(const struct attn_task *task, void *memory,
                      const struct attn_score_block *block) {
    const struct attn_grid wide = wide_grid(&task->grid);
    size_t rows;
    for (size_t key = 0; key < block->keys; key += wide.key_tile) {
        const size_t keys = attn_min_size(wide.key_tile, block->keys - key);
        for (size_t row = 0; row < task->rows; row += attn_max_size(rows, 1)) {
            for (rows = 0; rows < wide.row_tile && row + rows < task->rows &&
                           is_lost_part(task, block, row + rows, key, keys);)
                rows++;
            if (rows > 0)
                widen_part(task, memory, block, row, rows, key, keys);
        }
    }
}
