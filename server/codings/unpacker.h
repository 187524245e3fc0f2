/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undoes a body's coding into memory that grows with what comes out, under a limit of bytes and one
 * of the ratio, so that a small body can never take much. It runs in pieces, so that its caller may
 * look up in between.
 */
#ifndef SERVER_CODINGS_UNPACKER_H
#define SERVER_CODINGS_UNPACKER_H

#include "core/status.h"
#include "server/codings/coding.h"

/* So much may come of any body, whatever the ratio: a mask of a few thousand tokens is all zeros.
 */
#define UNPACKER_FREE_BYTES ((size_t)8 << 20)

struct unpacker_limits {
    size_t bytes;       /* the largest body */
    const char *option; /* of the daemon, that says so */
    size_t ratio;       /* of unpacked to packed bytes */
};

/* Whose memory it takes: asked before it is taken, told when it has been given back. */
struct unpacker_account {
    enum attn_status (*reserve)(void *owner, size_t bytes, struct attn_error *error);
    void (*release)(void *owner, size_t bytes);
    void *owner;
};

struct unpacker {
    const struct coding *coding;
    const unsigned char *body; /* borrowed */
    size_t length, at;
    struct unpacker_limits limits;
    struct unpacker_account account;
    size_t most;           /* bytes that may come out by both limits */
    unsigned char *buffer; /* owned, from the buffer pool, until it is taken */
    size_t unpacked, capacity;
    void *decoder;
    bool done;
};

/* Borrows the body, which is not empty. Takes no memory yet. */
void unpacker_init(struct unpacker *unpacker, const struct coding *coding, const void *body,
                   size_t length, const struct unpacker_limits *limits,
                   const struct unpacker_account *account);
/* Goes on until it is done, or has read or made at least `bytes` bytes more. MALFORMED for what is
   no such stream, ends early or goes on behind its end; BODY_TOO_LARGE; or the account's refusal.
 */
enum attn_status unpacker_run(struct unpacker *unpacker, size_t bytes, struct attn_error *error);
/* When it is done: the caller owns the buffer of *capacity bytes, which stays charged. */
void *unpacker_take(struct unpacker *unpacker, size_t *length, size_t *capacity);
/* Gives back what it still has. */
void unpacker_close(struct unpacker *unpacker);

#endif
