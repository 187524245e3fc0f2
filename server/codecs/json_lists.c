/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of numbers in the text of an answer. A long tensor is cut into pieces, each of which is
 * written where the longest text that it can have begins; then they are moved together.
 */
#include "server/codecs/json_lists.h"

#include <assert.h>
#include <string.h>

#include "core/checked.h"
#include "server/numbers/numbers.h"

/* Elements that are worth a piece of a long text, most pieces, and what each may need beyond its
 * share of the whole: the end of a word that is stored as one, and brackets of a row that it
 * splits.
 */
enum {
    PIECE_ELEMENTS = 16384,
    PIECES_MOST = 64,
    PIECE_ROOM = NUMBER_TEXT_ROOM + 3 * ATTN_MAX_RANK
};

static size_t piece_count(size_t elements) {
    return attn_max_size(1, attn_min_size(elements / PIECE_ELEMENTS, PIECES_MOST));
}

/* Indices are widened while they are printed; all else is floating point. */
static enum number_type number_type_of(enum attn_dtype dtype) {
    switch (dtype) {
    case ATTN_FLOAT64:
        return NUMBER_F64;
    case ATTN_FLOAT16:
        return NUMBER_F16;
    case ATTN_BFLOAT16:
        return NUMBER_BF16;
    case ATTN_INT32:
        return NUMBER_I64;
    default:
        assert(dtype == ATTN_FLOAT32);
        return NUMBER_F32;
    }
}

/* How a tensor's axes are printed: `rows` lists of `width` numbers, inside `outer` axes. */
struct nesting {
    int outer;
    size_t rows, width;
};

/* An empty axis ends the nesting: [2,0,3] is [[],[]]. */
static struct nesting nesting_of(const struct attn_result_tensor *tensor) {
    struct nesting nesting = {0, 1, 1};
    if (tensor->rank == 0)
        return nesting;
    while (nesting.outer < tensor->rank - 1 && tensor->shape[nesting.outer] > 0)
        nesting.rows *= tensor->shape[nesting.outer++];
    nesting.width = tensor->shape[nesting.outer];
    return nesting;
}

/* How the elements of a tensor are nested in its text. */
static struct nesting nesting_in(const struct attn_result_tensor *tensor, bool nested) {
    if (nested)
        return nesting_of(tensor);
    return (struct nesting){0, 1, tensor->bytes / attn_dtype_size(tensor->dtype)};
}

/* Room for `count` of the tensor's elements with the brackets and commas of `rows` rows. */
static bool elements_room(const struct attn_result_tensor *tensor, size_t count, size_t rows,
                          size_t *room) {
    size_t text, lists;
    /* Every list adds two brackets and a comma; the outer lists are at most as many per axis. */
    return number_array_text_room(number_type_of(tensor->dtype), count, &text) &&
           attn_mul_size(rows, 3 * ATTN_MAX_RANK, &lists) && attn_add_size(text, lists, room);
}

bool json_lists_room(const struct attn_result_tensor *tensor, bool nested, size_t *room) {
    const size_t elements = tensor->bytes / attn_dtype_size(tensor->dtype);
    size_t text;
    return elements_room(tensor, elements, nesting_in(tensor, nested).rows, &text) &&
           attn_add_size(text, piece_count(elements) * PIECE_ROOM, room);
}

static void write_indices(struct json_text *text, const int32_t *values, size_t count) {
    enum { AT_ONCE = 64 };
    int64_t wide[AT_ONCE];
    for (size_t at = 0; at < count; at += AT_ONCE) {
        const size_t n = attn_min_size(AT_ONCE, count - at);
        for (size_t i = 0; i < n; i++)
            wide[i] = values[at + i];
        if (at > 0)
            json_text_literal(text, ",");
        text->length += number_print_array(NUMBER_I64, wide, n, text->start + text->length);
    }
}

static void write_numbers(struct json_text *text, const struct attn_result_tensor *tensor,
                          size_t first, size_t count) {
    const char *const values = (const char *)tensor->data + first * attn_dtype_size(tensor->dtype);
    if (tensor->dtype == ATTN_INT32) {
        write_indices(text, (const int32_t *)tensor->data + first, count);
        return;
    }
    text->length += number_print_array(number_type_of(tensor->dtype), values, count,
                                       text->start + text->length);
    assert(text->length <= text->capacity);
}

/* How many outer axes have a list that begins at row `row` (or ends before it). */
static int boundaries(const struct attn_result_tensor *tensor, int outer, size_t row) {
    int count = 0;
    for (int axis = outer - 1; axis >= 0 && row % tensor->shape[axis] == 0; axis--) {
        row /= tensor->shape[axis];
        count++;
    }
    return count;
}

static void write_times(struct json_text *text, char byte, int count) {
    for (int i = 0; i < count; i++)
        json_text_raw(text, &byte, 1);
}

/* Elements `from` to `to` of one row, with what stands before and behind them. */
static void write_row(struct json_text *text, const struct attn_result_tensor *tensor,
                      const struct nesting *nesting, size_t row, size_t from, size_t to) {
    if (row > 0 || from > 0)
        json_text_literal(text, ",");
    if (from == 0)
        write_times(text, '[', 1 + boundaries(tensor, nesting->outer, row));
    write_numbers(text, tensor, row * nesting->width + from, to - from);
    if (to == nesting->width)
        write_times(text, ']', 1 + boundaries(tensor, nesting->outer, row + 1));
}

/* Elements [begin, end) of a tensor in order, unless they are not wanted any more; its rows have
   some. */
static void write_range(struct json_text *text, const struct attn_result_tensor *tensor,
                        const struct nesting *nesting, size_t begin, size_t end,
                        const struct attn_checkpoint *checkpoint) {
    for (size_t at = begin; at < end && !attn_checkpoint_is_cancelled(checkpoint);) {
        const size_t row = at / nesting->width, from = at % nesting->width;
        const size_t to = attn_min_size(nesting->width, from + (end - at));
        write_row(text, tensor, nesting, row, from, to);
        at += to - from;
    }
}

/* A tensor whose elements are written in pieces, each where it has room for the longest text. */
struct shared_text {
    const struct attn_result_tensor *tensor;
    struct nesting nesting;
    size_t elements, count;
    const struct attn_checkpoint *checkpoint; /* of who shares it out */
    struct json_text pieces[PIECES_MOST];
};

static size_t piece_begin(const struct shared_text *shared, size_t index) {
    return shared->elements / shared->count * index;
}

static size_t piece_end(const struct shared_text *shared, size_t index) {
    return index + 1 == shared->count ? shared->elements : piece_begin(shared, index + 1);
}

static void write_piece(void *argument, size_t index) {
    struct shared_text *const shared = argument;
    write_range(&shared->pieces[index], shared->tensor, &shared->nesting,
                piece_begin(shared, index), piece_end(shared, index), shared->checkpoint);
}

/* The room that was reckoned suffices for all pieces. */
static void place_pieces(struct shared_text *shared, const struct json_text *text) {
    char *at = text->start + text->length;
    for (size_t n = 0; n < shared->count; n++) {
        const size_t begin = piece_begin(shared, n), end = piece_end(shared, n);
        const size_t rows = (end - 1) / shared->nesting.width - begin / shared->nesting.width + 1;
        size_t room = 0;
        const bool fits = elements_room(shared->tensor, end - begin, rows, &room);
        assert(fits);
        (void)fits;
        shared->pieces[n] = (struct json_text){.start = at, .capacity = room};
        at += room;
    }
    assert(at <= text->start + text->capacity);
}

static void write_shared(struct json_text *text, const struct attn_result_tensor *tensor,
                         const struct nesting *nesting, const struct number_team *team) {
    struct shared_text shared = {.tensor = tensor,
                                 .nesting = *nesting,
                                 .elements = nesting->rows * nesting->width,
                                 .checkpoint = team->checkpoint};
    shared.count = piece_count(shared.elements);
    place_pieces(&shared, text);
    team->share(team, shared.count, write_piece, &shared);
    for (size_t n = 0; n < shared.count; n++) {
        memmove(text->start + text->length, shared.pieces[n].start, shared.pieces[n].length);
        text->length += shared.pieces[n].length;
    }
}

/* Rows of nothing may be many. */
static void write_empty_rows(struct json_text *text, const struct attn_result_tensor *tensor,
                             const struct nesting *nesting,
                             const struct attn_checkpoint *checkpoint) {
    enum { AT_ONCE = 4096 };
    for (size_t row = 0; row < nesting->rows; row++) {
        if (row % AT_ONCE == 0 && attn_checkpoint_stops(checkpoint))
            return;
        write_row(text, tensor, nesting, row, 0, 0);
    }
}

void json_lists_write(struct json_text *text, const struct attn_result_tensor *tensor, bool nested,
                      const struct number_team *team) {
    const struct nesting nesting = nesting_in(tensor, nested);
    const size_t elements = nesting.rows * nesting.width;
    if (nested && tensor->rank == 0)
        write_numbers(text, tensor, 0, 1);
    else if (team != NULL && piece_count(elements) > 1)
        write_shared(text, tensor, &nesting, team);
    else if (elements > 0)
        write_range(text, tensor, &nesting, 0, elements, NULL);
    else
        write_empty_rows(text, tensor, &nesting, team == NULL ? NULL : team->checkpoint);
}
