/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose bytes are whose, and who leaves when there is no room. What is to leave is chosen first,
 * and goes only when it is enough, its bytes straight to who asked. A key that would then hold more
 * than an equal share makes room with what is its own; any other with what the key has that is
 * furthest above its share, and where nobody is, with its own too.
 */
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/captures/captures_internal.h"

struct capture_owner *captures_owner(const struct captures *captures,
                                     const struct account *account) {
    struct capture_owner *owner = captures->owners;
    while (owner != NULL && owner->account != account)
        owner = owner->next;
    return owner;
}

struct capture_owner *captures_make_owner(struct captures *captures, struct account *account) {
    struct capture_owner *owner = captures_owner(captures, account);
    char name[REQUEST_ID_SIZE];
    if (owner != NULL)
        return owner;
    owner = calloc(1, sizeof *owner);
    if (owner == NULL)
        return NULL;
    request_id_choose(NULL, name);
    memcpy(owner->tag, name, sizeof owner->tag - 1);
    owner->account = account == NULL ? NULL : account_ref(account);
    owner->sequence = 1;
    owner->next = captures->owners;
    captures->owners = owner;
    return owner;
}

static bool is_gone(const struct capture_owner *owner) {
    return owner->captures == 0 && owner->account != NULL && account_is_closed(owner->account);
}

void captures_forget_owners(struct captures *captures) {
    for (struct capture_owner **at = &captures->owners; *at != NULL;) {
        struct capture_owner *owner = *at;
        if (!is_gone(owner)) {
            at = &owner->next;
            continue;
        }
        *at = owner->next;
        account_unref(owner->account);
        free(owner);
    }
}

void captures_give_back(struct captures *captures, struct capture_owner *owner, size_t bytes) {
    const size_t owed = attn_min_size(bytes, captures->owed);
    captures->bytes -= bytes;
    owner->bytes -= bytes;
    captures->owed -= owed;
    admission_release(captures->admission, bytes - owed);
}

/* ---- room that is made ---- */

struct room {
    struct captures *captures;
    struct capture_owner *asking;
    size_t bytes, leaving; /* what is asked for; what was chosen to leave */
    size_t share;          /* of each owner that has captures, or asks */
};

static struct room open_room(struct captures *captures, struct capture_owner *asking,
                             size_t bytes) {
    size_t owners = 1;
    for (struct capture_owner *owner = captures->owners; owner != NULL; owner = owner->next) {
        owner->leaving = 0;
        owner->at = captures->oldest;
        owner->levels_are_chosen = false;
        owners += owner != asking && owner->captures > 0;
    }
    return (struct room){captures, asking, bytes, 0, captures->options.bytes / owners};
}

static bool choose_level(struct capture *capture, size_t *bytes) {
    for (size_t n = CAPTURE_LEVELS; n-- > 0;) {
        struct capture_level *level = capture->levels[n];
        if (level == NULL || level->leaves)
            continue;
        level->leaves = true;
        *bytes = captures_level_bytes(level);
        return true;
    }
    return false;
}

/* One that somebody looks at would free nothing. */
static bool choose_whole(struct capture *capture, size_t *bytes) {
    if (capture->pinned || capture->leaves ||
        atomic_load_explicit(&capture->references, memory_order_acquire) != 1)
        return false;
    capture->leaves = true;
    *bytes = capture->bytes;
    return true;
}

/* The owner's overviews first, for they can be had again, then its oldest capture. */
static bool choose_of(struct room *room, struct capture_owner *owner) {
    for (;;) {
        size_t bytes;
        if (owner->at == NULL) {
            if (owner->levels_are_chosen)
                return false;
            owner->levels_are_chosen = true;
            owner->at = room->captures->oldest;
        } else if (owner->at->owner == owner &&
                   (owner->levels_are_chosen ? choose_whole(owner->at, &bytes)
                                             : choose_level(owner->at, &bytes))) {
            owner->leaving += bytes;
            room->leaving += bytes;
            return true;
        } else {
            owner->at = owner->at->previous;
        }
    }
}

static bool has_been_through(const struct capture_owner *owner) {
    return owner->at == NULL && owner->levels_are_chosen;
}

static size_t left_of(const struct capture_owner *owner) {
    return owner->bytes - owner->leaving;
}

/* One above its share that has more to lose; NULL when there is none. */
static struct capture_owner *largest(const struct room *room) {
    struct capture_owner *most = NULL;
    for (struct capture_owner *owner = room->captures->owners; owner != NULL; owner = owner->next)
        if (owner != room->asking && left_of(owner) > room->share && !has_been_through(owner) &&
            (most == NULL || left_of(owner) > left_of(most)))
            most = owner;
    return most;
}

/* False when nothing more may leave. */
static bool choose(struct room *room) {
    struct capture_owner *other;
    if (room->bytes <= room->share && left_of(room->asking) <= room->share - room->bytes)
        while ((other = largest(room)) != NULL)
            if (choose_of(room, other))
                return true;
    return choose_of(room, room->asking);
}

/* Whether it is enough; then the budget's bytes are taken, but for those that others leave. */
static bool is_enough(const struct room *room) {
    const struct captures *captures = room->captures;
    const size_t lacking = room->bytes - attn_min_size(room->bytes, room->leaving);
    return room->bytes <= captures->options.bytes - (captures->bytes - room->leaving) &&
           (lacking == 0 ||
            admission_reserve(captures->admission, lacking, ADMISSION_LATER) == ADMISSION_GRANTED);
}

/* What was chosen leaves, or stays after all. */
static void close_room(const struct room *room, bool enough) {
    struct captures *captures = room->captures;
    struct capture *newer;
    if (enough)
        captures->owed = attn_min_size(room->bytes, room->leaving);
    for (struct capture *capture = captures->oldest; capture != NULL; capture = newer) {
        newer = capture->previous;
        for (size_t n = 0; n < CAPTURE_LEVELS; n++) {
            if (capture->levels[n] == NULL || !capture->levels[n]->leaves)
                continue;
            capture->levels[n]->leaves = false;
            if (enough)
                captures_drop_level(capture, n);
        }
        const bool leaves = enough && capture->leaves;
        capture->leaves = false;
        captures->evicted += leaves;
        if (leaves)
            captures_delist(capture);
    }
}

bool captures_take(struct captures *captures, struct capture_owner *owner, size_t bytes,
                   bool evicts) {
    if (bytes > captures->options.bytes)
        return false;
    struct room room = open_room(captures, owner, bytes);
    bool enough = is_enough(&room);
    while (!enough && evicts && choose(&room))
        enough = is_enough(&room);
    if (room.leaving > 0)
        close_room(&room, enough);
    if (!enough)
        return false;
    captures->bytes += bytes;
    owner->bytes += bytes;
    return true;
}
