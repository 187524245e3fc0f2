/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing the headers of .npy; see npy_header.h. */
#include "server/codecs/npy_header.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"

static const char MAGIC[] = "\x93NUMPY";

enum { MAGIC_BYTES = 6, VERSION_AT = 6, LENGTH_AT = 8 };

struct number_kind {
    char letter;
    size_t item;
    enum attn_dtype dtype;
};

static const struct number_kind NUMBER_KINDS[] = {
    {'f', 4, ATTN_FLOAT32}, {'f', 8, ATTN_FLOAT64}, {'f', 2, ATTN_FLOAT16}, {'b', 1, ATTN_BOOL},
    {'u', 1, ATTN_UINT8},   {'i', 1, ATTN_INT8},    {'u', 2, ATTN_UINT16},  {'i', 2, ATTN_INT16},
    {'u', 4, ATTN_UINT32},  {'i', 4, ATTN_INT32},   {'u', 8, ATTN_UINT64},  {'i', 8, ATTN_INT64},
};

enum { KIND_COUNT = sizeof NUMBER_KINDS / sizeof *NUMBER_KINDS };

/* Kinds that are no tensor, and a sentence about each. */
struct foreign_kind {
    char letter;
    const char *sentence;
};

static const struct foreign_kind FOREIGN_KINDS[] = {
    {'O',
     "The array holds Python objects, which are saved as a pickle, and a pickle is never read. "
     "Save numbers: numpy.asarray(x, dtype=numpy.float32)."},
    {'V', "The array's dtype is raw bytes, as bfloat16 arrays are saved, for numpy has no name for "
          "that type. Send bfloat16 as application/vnd.safetensors."},
    {'c', "The array holds complex numbers. Send real ones."},
};

enum attn_status npy_prefix_read(const char prefix[NPY_PREFIX_BYTES], const char *name,
                                 struct attn_error *error, size_t *text, size_t *before) {
    const unsigned char *const bytes = (const unsigned char *)prefix;
    const unsigned version = bytes[VERSION_AT];
    if (memcmp(prefix, MAGIC, MAGIC_BYTES) != 0)
        return attn_fail(error, ATTN_MALFORMED, name,
                         "The member is no .npy array, which begins with \\x93NUMPY. Let "
                         "numpy.savez write the archive.");
    if (version < 1 || version > 3 || bytes[VERSION_AT + 1] != 0)
        return attn_fail(error, ATTN_MALFORMED, name,
                         "The array is .npy of version %u.%u; versions 1.0, 2.0 and 3.0 are read.",
                         version, (unsigned)bytes[VERSION_AT + 1]);
    *text = bytes[LENGTH_AT] | (size_t)bytes[LENGTH_AT + 1] << 8;
    *before = version == 1 ? LENGTH_AT + 2 : LENGTH_AT + 4;
    if (version > 1)
        *text |= (size_t)bytes[LENGTH_AT + 2] << 16 | (size_t)bytes[LENGTH_AT + 3] << 24;
    if (*text > NPY_MAX_TEXT)
        return attn_fail_limit(error, ATTN_MALFORMED, name, NPY_MAX_TEXT,
                               "The array's header has %zu bytes; at most %d are read.", *text,
                               NPY_MAX_TEXT);
    return ATTN_OK;
}

/* The dict's text, from the left. */
struct scanner {
    const char *at, *end;
};

static void skip_blanks(struct scanner *scanner) {
    while (scanner->at < scanner->end && memchr(" \t\r\n", *scanner->at, 4) != NULL)
        scanner->at++;
}

static bool take(struct scanner *scanner, const char *word) {
    const size_t length = strlen(word);
    skip_blanks(scanner);
    if ((size_t)(scanner->end - scanner->at) < length || memcmp(scanner->at, word, length) != 0)
        return false;
    scanner->at += length;
    return true;
}

/* A text in quotes of either kind, without escapes. */
static bool take_text(struct scanner *scanner, const char **text, size_t *length) {
    const char *const quote = take(scanner, "'") ? "'" : "\"";
    if (*quote == '"' && !take(scanner, quote))
        return false;
    const char *const close = memchr(scanner->at, *quote, (size_t)(scanner->end - scanner->at));
    if (close == NULL)
        return false;
    *text = scanner->at;
    *length = (size_t)(close - scanner->at);
    scanner->at = close + 1;
    return true;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* A whole number; Python 2 wrote an L behind it. */
static bool take_size(struct scanner *scanner, size_t *value) {
    skip_blanks(scanner);
    if (scanner->at == scanner->end || !is_digit(*scanner->at))
        return false;
    *value = 0;
    for (; scanner->at < scanner->end && is_digit(*scanner->at); scanner->at++)
        if (!attn_mul_size(*value, 10, value) ||
            !attn_add_size(*value, (size_t)(*scanner->at - '0'), value))
            return false;
    if (scanner->at < scanner->end && *scanner->at == 'L')
        scanner->at++;
    return true;
}

struct dict {
    const char *name;
    struct attn_error *error;
    struct npy_header *out;
    bool has_descr, has_order, has_shape;
};

static enum attn_status malformed(const struct dict *dict) {
    return attn_fail(dict->error, ATTN_MALFORMED, dict->name,
                     "The header of the .npy array cannot be read: it should be "
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} or the like.");
}

static enum attn_status refuse_kind(const struct dict *dict, const char *descr, size_t length) {
    for (size_t i = 0; i < sizeof FOREIGN_KINDS / sizeof *FOREIGN_KINDS; i++)
        if (memchr(descr, FOREIGN_KINDS[i].letter, attn_min_size(length, 2)) != NULL)
            return attn_fail(dict->error, ATTN_BAD_DTYPE, dict->name, "%s",
                             FOREIGN_KINDS[i].sentence);
    return attn_fail(dict->error, ATTN_BAD_DTYPE, dict->name,
                     "The array's dtype is '%.*s'; float16, float32, float64, bool and whole "
                     "numbers of 1 to 8 bytes are read.",
                     (int)attn_min_size(length, 20), descr);
}

/* '<f4': the order of bytes, the kind, and the size: of texts in characters. */
static enum attn_status read_descr(const struct dict *dict, const char *descr, size_t length) {
    struct npy_header *const out = dict->out;
    struct scanner size = {descr + 2, descr + length};
    if (length < 2 || memchr("<>|=", descr[0], 4) == NULL)
        return malformed(dict);
    if (length == 2 || !take_size(&size, &out->item) || size.at != size.end)
        return refuse_kind(dict, descr, length);
    out->big_endian = descr[0] == '>';
    out->kind = descr[1] == 'U' ? NPY_UNICODE : NPY_BYTES_TEXT;
    if (descr[1] == 'U' && !attn_mul_size(out->item, 4, &out->item))
        return malformed(dict);
    if (descr[1] == 'U' || descr[1] == 'S')
        return ATTN_OK;
    out->kind = NPY_NUMBERS;
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (NUMBER_KINDS[i].letter == descr[1] && NUMBER_KINDS[i].item == out->item) {
            out->dtype = NUMBER_KINDS[i].dtype;
            return ATTN_OK;
        }
    return refuse_kind(dict, descr, length);
}

static enum attn_status take_descr(struct dict *dict, struct scanner *scanner) {
    const char *descr;
    size_t length;
    dict->has_descr = true;
    if (take(scanner, "["))
        return attn_fail(dict->error, ATTN_BAD_DTYPE, dict->name,
                         "The array holds records with named fields. Save each field as an array "
                         "of its own.");
    return take_text(scanner, &descr, &length) ? read_descr(dict, descr, length) : malformed(dict);
}

static enum attn_status take_order(struct dict *dict, struct scanner *scanner) {
    dict->has_order = true;
    dict->out->fortran = take(scanner, "True");
    return dict->out->fortran || take(scanner, "False") ? ATTN_OK : malformed(dict);
}

static enum attn_status take_shape(struct dict *dict, struct scanner *scanner) {
    struct npy_header *const out = dict->out;
    dict->has_shape = true;
    if (!take(scanner, "("))
        return malformed(dict);
    out->rank = 0;
    while (!take(scanner, ")")) {
        size_t axis;
        if (out->rank == ATTN_MAX_RANK)
            return attn_fail_limit(
                dict->error, ATTN_BAD_SHAPE, dict->name, ATTN_MAX_RANK,
                "The array has more than %d axes, which is the most that a tensor "
                "has.",
                ATTN_MAX_RANK);
        if (!take_size(scanner, &axis))
            return malformed(dict);
        out->shape[out->rank++] = axis;
        /* A comma between, and one behind the only axis. */
        if (!take(scanner, ",") && (scanner->at == scanner->end || *scanner->at != ')'))
            return malformed(dict);
    }
    return ATTN_OK;
}

static bool is_name(const char *text, size_t length, const char *name) {
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

static enum attn_status take_member(struct dict *dict, struct scanner *scanner) {
    const char *text;
    size_t length;
    if (!take_text(scanner, &text, &length) || !take(scanner, ":"))
        return malformed(dict);
    if (is_name(text, length, "descr") && !dict->has_descr)
        return take_descr(dict, scanner);
    if (is_name(text, length, "fortran_order") && !dict->has_order)
        return take_order(dict, scanner);
    if (is_name(text, length, "shape") && !dict->has_shape)
        return take_shape(dict, scanner);
    return malformed(dict);
}

enum attn_status npy_header_read(const char *text, size_t length, const char *name,
                                 struct attn_error *error, struct npy_header *out) {
    struct dict dict = {.name = name, .error = error, .out = out};
    struct scanner scanner = {text, text + length};
    *out = (struct npy_header){.rank = 0};
    if (!take(&scanner, "{"))
        return malformed(&dict);
    while (!take(&scanner, "}")) {
        const enum attn_status status = take_member(&dict, &scanner);
        if (status != ATTN_OK)
            return status;
        if (!take(&scanner, ",") && (scanner.at == scanner.end || *scanner.at != '}'))
            return malformed(&dict);
    }
    skip_blanks(&scanner);
    if (scanner.at != scanner.end || !dict.has_descr || !dict.has_order || !dict.has_shape)
        return malformed(&dict);
    return ATTN_OK;
}

/* In Fortran's order the first axis is the innermost. */
struct attn_tensor npy_header_view(const struct npy_header *header, const void *bytes) {
    struct attn_tensor view = attn_tensor_view(bytes, header->dtype, header->rank, header->shape);
    ptrdiff_t stride = 1;
    for (int axis = 0; header->fortran && axis < view.rank; axis++) {
        view.stride[axis] = stride;
        stride *= (ptrdiff_t)attn_max_size(view.shape[axis], 1);
    }
    return view;
}

/* A whole header of version 1.0 with this dict. */
static void write(char *out, const char *descr, int rank, const size_t *shape) {
    enum { BEFORE = LENGTH_AT + 2 };
    char *const text = out + BEFORE;
    const size_t room = NPY_BYTES - BEFORE;
    int at = snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int axis = 0; axis < rank; axis++)
        at += snprintf(text + at, room - (size_t)at, "%zu, ", shape[axis]);
    at += snprintf(text + at, room - (size_t)at, "), }");
    assert(at > 0 && (size_t)at < room);
    memcpy(out, MAGIC, MAGIC_BYTES);
    memcpy(out + VERSION_AT, "\1\0", 2);
    out[LENGTH_AT] = (char)(room & 0xff);
    out[LENGTH_AT + 1] = (char)(room >> 8);
    memset(text + at, ' ', room - (size_t)at);
    out[NPY_BYTES - 1] = '\n';
}

void npy_header_write(char *out, enum attn_dtype dtype, int rank, const size_t *shape) {
    char descr[8];
    size_t kind = 0;
    for (; NUMBER_KINDS[kind].dtype != dtype; kind++)
        assert(kind + 1 < KIND_COUNT);
    snprintf(descr, sizeof descr, "%c%c%zu", NUMBER_KINDS[kind].item == 1 ? '|' : '<',
             NUMBER_KINDS[kind].letter, NUMBER_KINDS[kind].item);
    write(out, descr, rank, shape);
}

void npy_header_write_text(char *out, size_t characters) {
    char descr[32];
    snprintf(descr, sizeof descr, "<U%zu", characters);
    write(out, descr, 0, NULL);
}
