/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content codings: how a body is packed for its way. One row of the table per coding. Decoders and
 * encoders work on spans that the caller hands them, so that the caller bounds each step, owns the
 * bytes on both sides and may stop between two steps.
 */
#ifndef SERVER_CODINGS_CODING_H
#define SERVER_CODINGS_CODING_H

#include <stdbool.h>
#include <stddef.h>

#include "core/checkpoint.h"

/* What is left to read, and the room that is left; a step moves both. */
struct coding_span {
    const unsigned char *in;
    size_t in_left;
    unsigned char *out;
    size_t out_left;
};

enum coding_progress {
    CODING_GOES_ON,  /* wants more input, or more room */
    CODING_ENDED,    /* a whole stream has ended: a member of gzip, a frame of zstd */
    CODING_BROKEN,   /* these are no bytes of this coding */
    CODING_NO_MEMORY /* for the state of its own */
};

struct coding {
    const char *name;                    /* as it is sent, and recognised in whatever case */
    const char *alias;                   /* another name of it, or NULL */
    bool for_oip;                        /* clients of the Open Inference Protocol know it */
    size_t decoder_bytes, encoder_bytes; /* that the state takes at most */

    /* Whether a stream begins at body[0 .. length); NULL: its first bytes say nothing. Streams of a
       coding that can tell may follow each other. */
    bool (*begins)(const unsigned char *body, size_t length);
    /* What the body says that it unpacks to, for a first guess; 0 when it does not say. NULL: it
       never does. */
    size_t (*claimed_bytes)(const unsigned char *body, size_t length);

    /* NULL when there is no memory. The body is only looked at. */
    void *(*decoder_open)(const unsigned char *body, size_t length);
    /* `fault` says what is BROKEN, as an end of a sentence; a static string. */
    enum coding_progress (*decode)(void *decoder, struct coding_span *span, const char **fault);
    void (*decoder_close)(void *decoder); /* NULL is ignored */

    /* For `length` bytes in all, at a level that favours speed. */
    void *(*encoder_open)(size_t length);
    enum coding_progress (*encode)(void *encoder, struct coding_span *span, bool last);
    void (*encoder_close)(void *encoder); /* NULL is ignored */
};

/* The table; NULL past the end. */
const struct coding *coding_at(size_t index);
size_t coding_index(const struct coding *coding);
/* By name[0 .. length) or an alias, in whatever case; NULL: there is none. */
const struct coding *coding_find(const char *name, size_t length);
/* The coding whose stream begins at body[0 .. length), as its first bytes show; NULL: none. */
const struct coding *coding_recognise(const unsigned char *body, size_t length);

enum coding_request { CODING_PLAIN, CODING_KNOWN, CODING_UNKNOWN, CODING_SEVERAL };
/* What a Content-Encoding header (NULL: none) says; *coding is set when it is KNOWN. */
enum coding_request coding_of_request(const char *content_encoding, const struct coding **coding);

/* Whether an Accept-Encoding header names the coding, or all that it does not name, with a q-value
   above 0. False when the header is absent (NULL). */
bool coding_is_accepted(const char *accept_encoding, const struct coding *coding);
/* The coding of an Accept-Encoding header that asks for one coding and nothing else; or NULL. */
const struct coding *coding_asked_alone(const char *accept_encoding);

/* "gzip, deflate or zstd", of those `for_oip` or of all. Returns text. */
const char *coding_names(bool for_oip, char *text, size_t size);

/* Packs data[0 .. length) into out[0 .. room) and returns the packed length; 0 when it would take
   more room, when there is no memory, or when the checkpoint (may be NULL) says stop. */
size_t coding_pack(const struct coding *coding, const void *data, size_t length, void *out,
                   size_t room, const struct attn_checkpoint *checkpoint);

#endif
