/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that were answered and are kept, so that their maps can be looked at: a list under a cap of
 * bytes, of which each goes after its time. Where there is no room, of each key the oldest that is
 * not pinned goes first, and another key's only while that holds more than an equal share. What
 * they hold is taken out of the one budget of bytes. As sessions do, captures belong to the account
 * of the key that sent their calls, and end when it is closed; for others they do not exist.
 * Without keys all belong to everyone: to no account, NULL.
 *
 * Threads: everything here may be called on any. A capture that was found stays until it is let go,
 * whatever becomes of it in the list meanwhile.
 */
#ifndef SERVER_CAPTURES_CAPTURES_H
#define SERVER_CAPTURES_CAPTURES_H

#include <stdatomic.h>

#include "core/attention.h"
#include "server/admission.h"
#include "server/auth/account.h"
#include "server/codecs/codec.h"
#include "server/request_id.h"

struct captures_options {
    bool on, half; /* half: q and k are kept as float16 */
    size_t bytes;
    uint64_t ttl_ms; /* 0: no limit */
};

/* A level of detail of one head's map: the largest weight of each bin, NaN where all is hidden. */
struct capture_level {
    size_t batch;
    int64_t head; /* or CAPTURE_HEADS_MEAN, CAPTURE_HEADS_MAX */
    size_t rows, cols;
    uint16_t *bins; /* float16 [rows][cols]; owned */
    bool leaves;    /* the list's, while it makes room */
};
enum { CAPTURE_HEADS_MEAN = -1, CAPTURE_HEADS_MAX = -2, CAPTURE_LEVEL_SIDE = 2048 };

struct capture {
    /* What never changes. Texts, labels and the call lie in `memory`. */
    char id[REQUEST_ID_SIZE];
    struct capture_owner *owner;
    struct attn_kept *kept;
    struct codec_capture about;
    struct codec_labels q_labels, k_labels;
    double created; /* seconds since 1970 */
    size_t bytes;
    void *memory; /* owned */
    /* The list's, under its lock. */
    struct captures *captures;
    struct capture *next, *previous; /* the next is older */
    atomic_int references;
    uint64_t sequence; /* of its last change */
    int64_t expires;   /* on clock_now(); 0: never */
    bool listed, pinned, leaves;
    struct capture_level *levels[8]; /* the last one had stands first; NULL: none */
    double *stats;                   /* [ATTN_STATS,B,Hq]; owned; NULL until asked for */
};

/* NULL when there is no memory. Borrows the admission, which must outlive it. */
struct captures *captures_create(const struct captures_options *options,
                                 struct admission *admission);
/* Nobody may hold a capture any more. */
void captures_free(struct captures *captures);
const struct captures_options *captures_options(const struct captures *captures);

/* Why a call is not kept where the system gives no memory. */
extern const char CAPTURES_LACK_MEMORY[];

/*
 * Room for a call that is to be kept, with one reference and not in the list; others may be dropped
 * for it. NULL with a sentence in *refusal (static text) when there is none, and then nothing was
 * dropped. The caller fills in the call and publishes it, or lets it go.
 */
struct capture *captures_begin(struct captures *captures, struct account *account, size_t bytes,
                               const char **refusal);
/* Puts it at the head of the list; its memory does not change any more. */
void captures_publish(struct capture *capture);

/* Adds or ends a reference. */
struct capture *capture_ref(struct capture *capture);
void capture_unref(struct capture *capture);

/* With a reference; NULL when the account has none of this id. */
struct capture *captures_find(struct captures *captures, const struct account *account,
                              const char *id, size_t length);
/* Those of the account that changed after `since`, newest first: *count of them in malloced memory,
   each with a reference. NULL when there are none, or no memory: then *count says which. */
struct capture **captures_list(struct captures *captures, const struct account *account,
                               uint64_t since, size_t *count);
/* Takes it out of the list; or all of the account. */
void captures_drop(struct capture *capture);
void captures_drop_all(struct captures *captures, const struct account *account);
/* Pins or unpins it, which has it stay or go in its time. False when it cannot be pinned: an
   account may pin half of what others leave unpinned, and without keys all can be. */
bool captures_pin(struct capture *capture, bool pinned);
bool capture_is_pinned(struct capture *capture);
/* Drops those whose time is over, or whose key was taken away. */
void captures_expire(struct captures *captures);

/* Rises with everything that the account's list shows, and with nothing else. The tag is of these
   numbers alone, also among those of other accounts and processes. */
enum { CAPTURES_TAG_SIZE = 9 };
uint64_t captures_sequence(struct captures *captures, const struct account *account,
                           char tag[CAPTURES_TAG_SIZE]);

/* Takes over a level's bins, `rows` x `cols`, when there is room for them, else frees them. */
void capture_keep_level(struct capture *capture, const struct capture_level *level);
/* Copies the level of a head to *level, whose bins stay while the lock is held: call
   capture_end_level() soon. False, and no lock held, when there is none. */
bool capture_begin_level(struct capture *capture, size_t batch, int64_t head,
                         struct capture_level *level);
void capture_end_level(struct capture *capture);

/* Keeps a copy of statistics, [ATTN_STATS,B,Hq]; reads them into `stats`, false when there are
   none. */
void capture_keep_stats(struct capture *capture, const double *stats);
bool capture_read_stats(struct capture *capture, double *stats);

struct captures_counts {
    size_t count, bytes, pinned;
    uint64_t added, evicted, refused;
};
struct captures_counts captures_count(struct captures *captures);

#endif
