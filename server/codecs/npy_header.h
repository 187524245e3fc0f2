/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of numpy's .npy: a magic text, a version, a length, and a Python dict with descr,
 * fortran_order and shape, padded with blanks; the array's bytes follow. Versions 1, 2 and 3.
 */
#ifndef SERVER_CODECS_NPY_HEADER_H
#define SERVER_CODECS_NPY_HEADER_H

#include "core/status.h"
#include "core/tensor.h"

enum {
    NPY_PREFIX_BYTES = 12, /* magic, version and length, of which version 1 has two less */
    NPY_MAX_TEXT = 4096,
    NPY_BYTES = 192 /* of a header that is written here: room for any shape, a multiple of 64 */
};

enum npy_kind { NPY_NUMBERS, NPY_UNICODE, NPY_BYTES_TEXT };

struct npy_header {
    enum npy_kind kind;
    enum attn_dtype dtype; /* of NUMBERS */
    size_t item;           /* bytes per element */
    bool big_endian, fortran;
    int rank;
    size_t shape[ATTN_MAX_RANK];
};

/*
 * What the first NPY_PREFIX_BYTES say: bytes of the text, and of the prefix itself. Errors, at
 * `name`: MALFORMED for another magic or version, or a text of more than NPY_MAX_TEXT bytes.
 */
enum attn_status npy_prefix_read(const char prefix[NPY_PREFIX_BYTES], const char *name,
                                 struct attn_error *error, size_t *text, size_t *before);

/*
 * Reads the dict. Errors, at `name`: MALFORMED for what is none; BAD_DTYPE for arrays of objects,
 * which are pickles and never read, of records, of bfloat16, which numpy cannot name, and of what
 * else is no tensor; BAD_SHAPE for more than ATTN_MAX_RANK axes.
 */
enum attn_status npy_header_read(const char *text, size_t length, const char *name,
                                 struct attn_error *error, struct npy_header *out);

/* The array of numbers at `bytes`, which the view borrows, in the order that the header says. */
struct attn_tensor npy_header_view(const struct npy_header *header, const void *bytes);

/* Writes NPY_BYTES bytes: a dense array of a dtype that numpy has, or one text of `characters`. */
void npy_header_write(char *out, enum attn_dtype dtype, int rank, const size_t *shape);
void npy_header_write_text(char *out, size_t characters);

#endif
