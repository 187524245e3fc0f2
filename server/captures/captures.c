/* SPDX-License-Identifier: Apache-2.0 */
/* The list of captures under one lock, and who goes when there is no room; see captures.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/captures/captures_internal.h"
#include "server/clock.h"

struct captures *captures_create(const struct captures_options *options,
                                 struct admission *admission) {
    struct captures *captures = calloc(1, sizeof *captures);
    if (captures == NULL)
        return NULL;
    pthread_mutex_init(&captures->lock, NULL);
    captures->options = *options;
    captures->admission = admission;
    char name[REQUEST_ID_SIZE];
    request_id_choose(NULL, name);
    memcpy(captures->tag, name, sizeof captures->tag - 1);
    return captures;
}

const struct captures_options *captures_options(const struct captures *captures) {
    return &captures->options;
}

/* ---- under the lock ---- */

void captures_lock(struct captures *captures) {
    pthread_mutex_lock(&captures->lock);
}

void captures_unlock(struct captures *captures) {
    pthread_mutex_unlock(&captures->lock);
}

size_t captures_level_bytes(const struct capture_level *level) {
    return level->rows * level->cols * sizeof *level->bins;
}

void captures_drop_level(struct capture *capture, size_t index) {
    struct capture_level *level = capture->levels[index];
    if (level == NULL)
        return;
    captures_give_back(capture->captures, capture->owner, captures_level_bytes(level));
    free(level->bins);
    free(level);
    capture->levels[index] = NULL;
}

static void drop_levels(struct capture *capture) {
    for (size_t n = 0; n < CAPTURE_LEVELS; n++)
        captures_drop_level(capture, n);
}

static void forget(struct capture *capture) {
    if (atomic_fetch_sub_explicit(&capture->references, 1, memory_order_acq_rel) != 1)
        return;
    drop_levels(capture);
    captures_give_back(capture->captures, capture->owner, capture->bytes);
    capture->owner->captures--;
    free(capture->stats);
    free(capture->memory);
    free(capture);
}

static void enlist(struct capture *capture) {
    struct captures *captures = capture->captures;
    capture->listed = true;
    capture->next = captures->newest;
    *(captures->newest != NULL ? &captures->newest->previous : &captures->oldest) = capture;
    captures->newest = capture;
}

static void set_pinned(struct capture *capture, bool pinned) {
    const size_t before = capture->pinned ? capture->bytes : 0, after = pinned ? capture->bytes : 0;
    capture->owner->pinned += after - before;
    capture->captures->pinned += after - before;
    capture->pinned = pinned;
}

void captures_delist(struct capture *capture) {
    struct captures *captures = capture->captures;
    if (!capture->listed)
        return;
    capture->listed = false;
    *(capture->previous != NULL ? &capture->previous->next : &captures->newest) = capture->next;
    *(capture->next != NULL ? &capture->next->previous : &captures->oldest) = capture->previous;
    set_pinned(capture, false);
    capture->owner->sequence++;
    forget(capture);
}

static bool is_orphan(const struct capture *capture) {
    return capture->owner->account != NULL && account_is_closed(capture->owner->account);
}

static void expire(struct captures *captures) {
    const int64_t now = clock_now();
    struct capture *newer;
    for (struct capture *capture = captures->oldest; capture != NULL; capture = newer) {
        newer = capture->previous;
        if (is_orphan(capture) ||
            (!capture->pinned && capture->expires != 0 && now >= capture->expires))
            captures_delist(capture);
    }
    captures_forget_owners(captures);
}

static bool belongs(const struct capture *capture, const struct account *account) {
    return capture->owner->account == account;
}

static void drop_those_of(struct captures *captures, const struct account *account, bool all) {
    struct capture *older;
    for (struct capture *capture = captures->newest; capture != NULL; capture = older) {
        older = capture->next;
        if (all || belongs(capture, account))
            captures_delist(capture);
    }
}

/* ---- for all ---- */

void captures_free(struct captures *captures) {
    if (captures == NULL)
        return;
    drop_those_of(captures, NULL, true);
    while (captures->owners != NULL) {
        struct capture_owner *owner = captures->owners;
        assert(owner->captures == 0 && owner->bytes == 0 && owner->pinned == 0);
        captures->owners = owner->next;
        account_unref(owner->account);
        free(owner);
    }
    pthread_mutex_destroy(&captures->lock);
    free(captures);
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t milliseconds = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return (double)milliseconds / 1e3;
}

const char CAPTURES_LACK_MEMORY[] = "there is no memory to keep the call now";

/* Nobody's yet. */
static struct capture *make(size_t bytes) {
    struct capture *capture = calloc(1, sizeof *capture);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (capture == NULL || memory == NULL) {
        free(capture);
        free(memory);
        return NULL;
    }
    capture->memory = memory;
    capture->bytes = bytes;
    capture->created = now_seconds();
    atomic_init(&capture->references, 1);
    request_id_choose(NULL, capture->id);
    return capture;
}

/* Room for it; or why there is none. */
static const char *let_in(struct captures *captures, struct account *account,
                          struct capture *capture) {
    expire(captures);
    struct capture_owner *owner = captures_make_owner(captures, account);
    if (owner == NULL)
        return CAPTURES_LACK_MEMORY;
    if (!captures_take(captures, owner, capture->bytes, true))
        return "captures are full, and what may go for this call is not enough: others are "
               "pinned, in use, or within another key's share; drop some";
    owner->captures++;
    capture->captures = captures;
    capture->owner = owner;
    return NULL;
}

/* Memory comes first, for others go for the room; it is not written to before there is room. */
struct capture *captures_begin(struct captures *captures, struct account *account, size_t bytes,
                               const char **refusal) {
    const bool fits = bytes <= captures->options.bytes;
    struct capture *capture = fits ? make(bytes) : NULL;
    *refusal =
        fits ? CAPTURES_LACK_MEMORY : "the call needs more than captures may hold (capture_bytes)";
    captures_lock(captures);
    if (capture != NULL)
        *refusal = let_in(captures, account, capture);
    captures->refused += *refusal != NULL;
    captures_unlock(captures);
    if (*refusal == NULL)
        return capture;
    if (capture != NULL)
        free(capture->memory);
    free(capture);
    return NULL;
}

void captures_publish(struct capture *capture) {
    struct captures *captures = capture->captures;
    const uint64_t ttl = captures->options.ttl_ms;
    captures_lock(captures);
    capture->sequence = ++capture->owner->sequence;
    capture->expires = clock_deadline(clock_now(), ttl);
    captures->added++;
    capture_ref(capture);
    enlist(capture);
    captures_unlock(captures);
}

struct capture *capture_ref(struct capture *capture) {
    atomic_fetch_add_explicit(&capture->references, 1, memory_order_relaxed);
    return capture;
}

void capture_unref(struct capture *capture) {
    struct captures *captures = capture->captures;
    captures_lock(captures);
    forget(capture);
    captures_unlock(captures);
}

struct capture *captures_find(struct captures *captures, const struct account *account,
                              const char *id, size_t length) {
    captures_lock(captures);
    expire(captures);
    struct capture *capture = captures->newest;
    while (capture != NULL && !(belongs(capture, account) && strlen(capture->id) == length &&
                                memcmp(capture->id, id, length) == 0))
        capture = capture->next;
    if (capture != NULL)
        capture_ref(capture);
    captures_unlock(captures);
    return capture;
}

static bool is_listed(const struct capture *capture, const struct account *account,
                      uint64_t since) {
    return belongs(capture, account) && capture->sequence > since;
}

struct capture **captures_list(struct captures *captures, const struct account *account,
                               uint64_t since, size_t *count) {
    size_t room = 0;
    captures_lock(captures);
    expire(captures);
    for (struct capture *at = captures->newest; at != NULL; at = at->next)
        room += is_listed(at, account, since);
    struct capture **list = room == 0 ? NULL : calloc(room, sizeof *list);
    *count = room;
    size_t n = 0;
    for (struct capture *at = captures->newest; list != NULL && at != NULL; at = at->next)
        if (is_listed(at, account, since))
            list[n++] = capture_ref(at);
    captures_unlock(captures);
    return list;
}

void captures_drop(struct capture *capture) {
    struct captures *captures = capture->captures;
    captures_lock(captures);
    captures_delist(capture);
    captures_unlock(captures);
}

void captures_drop_all(struct captures *captures, const struct account *account) {
    captures_lock(captures);
    drop_those_of(captures, account, false);
    captures_unlock(captures);
}

/* Bytes that an owner may pin: half of what others leave, so that there is always room for more. */
static size_t most_pinned(const struct captures *captures, const struct capture_owner *owner) {
    const size_t others = captures->pinned - owner->pinned, most = captures->options.bytes;
    return owner->account == NULL ? most : (most - others) / 2;
}

bool captures_pin(struct capture *capture, bool pinned) {
    struct captures *captures = capture->captures;
    const struct capture_owner *owner = capture->owner;
    captures_lock(captures);
    const bool changes = capture->listed && capture->pinned != pinned;
    const bool may =
        !changes || !pinned || owner->pinned + capture->bytes <= most_pinned(captures, owner);
    if (changes && may) {
        set_pinned(capture, pinned);
        capture->sequence = ++capture->owner->sequence;
    }
    captures_unlock(captures);
    return may;
}

bool capture_is_pinned(struct capture *capture) {
    captures_lock(capture->captures);
    const bool pinned = capture->pinned;
    captures_unlock(capture->captures);
    return pinned;
}

void captures_expire(struct captures *captures) {
    captures_lock(captures);
    expire(captures);
    captures_unlock(captures);
}

uint64_t captures_sequence(struct captures *captures, const struct account *account,
                           char tag[CAPTURES_TAG_SIZE]) {
    captures_lock(captures);
    expire(captures);
    const struct capture_owner *owner = captures_owner(captures, account);
    const uint64_t sequence = owner == NULL ? 1 : owner->sequence;
    memcpy(tag, owner == NULL ? captures->tag : owner->tag, CAPTURES_TAG_SIZE);
    captures_unlock(captures);
    return sequence;
}

struct captures_counts captures_count(struct captures *captures) {
    captures_lock(captures);
    expire(captures);
    struct captures_counts counts = {.bytes = captures->bytes,
                                     .added = captures->added,
                                     .evicted = captures->evicted,
                                     .refused = captures->refused};
    for (const struct capture *at = captures->newest; at != NULL; at = at->next) {
        counts.count++;
        counts.pinned += at->pinned;
    }
    captures_unlock(captures);
    return counts;
}
