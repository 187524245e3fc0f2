/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the list of captures share. */
#ifndef SERVER_CAPTURES_CAPTURES_INTERNAL_H
#define SERVER_CAPTURES_CAPTURES_INTERNAL_H

#include <pthread.h>

#include "server/captures/captures.h"

/* Who has captures, or had some: an account whose key is there, or everyone where there are no
   keys. */
struct capture_owner {
    struct capture_owner *next;
    struct account *account; /* owned reference; NULL: everyone */
    char tag[CAPTURES_TAG_SIZE];
    size_t captures;      /* that are not freed */
    size_t bytes, pinned; /* of them, overviews included; of those that are pinned */
    uint64_t sequence;    /* of the last change that its list shows */
    /* While room is made: what it would lose, and how far its captures have been gone through. */
    size_t leaving;
    struct capture *at;
    bool levels_are_chosen;
};

struct captures {
    pthread_mutex_t lock;
    char tag[CAPTURES_TAG_SIZE];
    struct captures_options options;
    struct admission *admission;
    struct capture_owner *owners;
    struct capture *newest, *oldest;
    size_t bytes, pinned; /* of all that are not freed, levels included; of those that are pinned */
    size_t owed; /* of the budget, to one that others leave for: nobody else gets these bytes */
    uint64_t added, evicted, refused;
};

enum { CAPTURE_LEVELS = sizeof(((struct capture *)NULL)->levels) / sizeof(struct capture_level *) };

void captures_lock(struct captures *captures);
void captures_unlock(struct captures *captures);

/* All of these under the lock. */

/* NULL when the account has never had a capture; the other makes it then, and gives NULL when there
   is no memory. */
struct capture_owner *captures_owner(const struct captures *captures,
                                     const struct account *account);
struct capture_owner *captures_make_owner(struct captures *captures, struct account *account);
/* Ends those whose key was taken away, and that have nothing left. */
void captures_forget_owners(struct captures *captures);

/* Takes bytes for an owner; `evicts` says whether others may have to go for it. Nothing goes unless
   it is enough. */
bool captures_take(struct captures *captures, struct capture_owner *owner, size_t bytes,
                   bool evicts);
void captures_give_back(struct captures *captures, struct capture_owner *owner, size_t bytes);
size_t captures_level_bytes(const struct capture_level *level);
void captures_drop_level(struct capture *capture, size_t index);
/* Takes it out of the list, whose reference ends with it. */
void captures_delist(struct capture *capture);

#endif
