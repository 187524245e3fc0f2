/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a capture once it has been computed: levels of detail, and statistics. */
#include <stdlib.h>
#include <string.h>

#include "server/captures/captures_internal.h"

static size_t find_level(const struct capture *capture, size_t batch, int64_t head) {
    size_t n = 0;
    while (n < CAPTURE_LEVELS &&
           !(capture->levels[n] != NULL && capture->levels[n]->batch == batch &&
             capture->levels[n]->head == head))
        n++;
    return n;
}

/* The one at `index` becomes the first. */
static void use_level(struct capture *capture, size_t index) {
    struct capture_level *level = capture->levels[index];
    memmove(capture->levels + 1, capture->levels, index * sizeof *capture->levels);
    capture->levels[0] = level;
}

void capture_keep_level(struct capture *capture, const struct capture_level *level) {
    struct captures *captures = capture->captures;
    struct capture_level *copy = malloc(sizeof *copy);
    captures_lock(captures);
    const bool known = find_level(capture, level->batch, level->head) < CAPTURE_LEVELS;
    if (copy != NULL && !known && capture->listed) {
        captures_drop_level(capture, CAPTURE_LEVELS - 1);
        if (captures_take(captures, capture->owner, captures_level_bytes(level), false)) {
            *copy = *level;
            capture->levels[CAPTURE_LEVELS - 1] = copy;
            use_level(capture, CAPTURE_LEVELS - 1);
            captures_unlock(captures);
            return;
        }
    }
    captures_unlock(captures);
    free(copy);
    free(level->bins);
}

bool capture_begin_level(struct capture *capture, size_t batch, int64_t head,
                         struct capture_level *level) {
    captures_lock(capture->captures);
    const size_t index = find_level(capture, batch, head);
    if (index < CAPTURE_LEVELS) {
        use_level(capture, index);
        *level = *capture->levels[0];
        return true;
    }
    captures_unlock(capture->captures);
    return false;
}

void capture_end_level(struct capture *capture) {
    captures_unlock(capture->captures);
}

static size_t stats_bytes(const struct capture *capture) {
    const struct attn_call *call = &capture->kept->call;
    return ATTN_STATS * call->B * call->Hq * sizeof(double);
}

void capture_keep_stats(struct capture *capture, const double *stats) {
    const size_t bytes = stats_bytes(capture);
    double *copy = malloc(bytes == 0 ? 1 : bytes);
    captures_lock(capture->captures);
    if (copy != NULL && capture->stats == NULL) {
        memcpy(copy, stats, bytes);
        capture->stats = copy;
        copy = NULL;
    }
    captures_unlock(capture->captures);
    free(copy);
}

bool capture_read_stats(struct capture *capture, double *stats) {
    captures_lock(capture->captures);
    const bool had = capture->stats != NULL;
    if (had)
        memcpy(stats, capture->stats, stats_bytes(capture));
    captures_unlock(capture->captures);
    return had;
}
