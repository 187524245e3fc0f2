/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long array of numbers, parsed by several threads: its text is cut at commas. In a rectangular
 * array the number of commas before an element is the element's number, so that each piece knows
 * where its elements go and where in a row it begins. What it cannot know, how its brackets fit
 * those of the others, it notes: after which rows how many arrays end. Text that is not plainly
 * right is parsed again from end to end, which finds the first fault and says where it is.
 */
#include "server/numbers/number_decimal.h"
#include "server/numbers/number_row.h"

#include <assert.h>
#include <string.h>

enum { PIECES_MOST = 64 };

/* The rows after which arrays of one level end: `count` of them, `stride` apart; rows count from 1.
 */
struct endings {
    size_t count, first, last, stride;
    bool regular;
};

struct piece {
    const char *begin, *end; /* up to the comma that leads to the next piece */
    size_t elements, first;  /* by its commas, and those before */
    int opens, closes;       /* brackets that it begins and ends with */
    struct endings levels[NUMBER_MAX_RANK];
    bool right;
};

struct shared {
    const atomic_bool *cancelled;
    enum number_type type;
    char *out;
    size_t width; /* of a row, in elements */
    size_t count;
    struct piece pieces[PIECES_MOST];
};

static size_t count_commas(const char *p, const char *end) {
    size_t commas = 0;
    for (; p < end; p++)
        commas += *p == ',';
    return commas;
}

static void count_piece(void *argument, size_t index) {
    struct shared *const shared = argument;
    struct piece *const piece = &shared->pieces[index];
    piece->elements = count_commas(piece->begin, piece->end) + 1;
}

/* Passes the brackets at walk->at, however they are spaced, and returns how many those are. */
static int take_brackets(struct number_walk *walk, unsigned char bracket) {
    int count = 0;
    while (count < NUMBER_MAX_RANK && number_peek(walk->at, walk->end) == bracket) {
        walk->at = number_skip_space(walk->at + 1, walk->end);
        count++;
    }
    return count;
}

/* `closes` arrays end after row `row`. */
static void note_endings(struct piece *piece, size_t row, int closes) {
    for (int level = 1; level < closes; level++) {
        struct endings *const endings = &piece->levels[level];
        const size_t stride = row - endings->last;
        if (endings->count == 0)
            endings->first = row;
        else if (endings->count == 1)
            endings->stride = stride;
        else
            endings->regular &= stride == endings->stride;
        endings->last = row;
        endings->count++;
    }
}

static bool parse_piece(const struct shared *shared, struct piece *piece) {
    struct number_walk walk = {.text = piece->begin,
                               .at = number_skip_space(piece->begin, piece->end),
                               .end = piece->end,
                               .cancelled = shared->cancelled,
                               .out = shared->out,
                               .stored = piece->first,
                               .capacity = piece->first + piece->elements,
                               .type = shared->type,
                               .depth = 1};
    size_t row = piece->first / shared->width;
    walk.count[0] = piece->first % shared->width;
    piece->opens = take_brackets(&walk, '[');
    for (;;) {
        if (number_parse_row(&walk) != NUMBER_OK || walk.count[0] > shared->width)
            return false;
        const bool is_whole = walk.count[0] == shared->width;
        piece->closes = take_brackets(&walk, ']');
        if (is_whole != (piece->closes > 0))
            return false;
        if (is_whole)
            note_endings(piece, ++row, piece->closes);
        if (walk.at == walk.end)
            return walk.stored == walk.capacity;
        if (*walk.at != ',')
            return false;
        walk.at = number_skip_space(walk.at + 1, walk.end);
        if (take_brackets(&walk, '[') != piece->closes)
            return false;
        walk.count[0] = 0;
    }
}

static void parse_one(void *argument, size_t index) {
    struct shared *const shared = argument;
    shared->pieces[index].right = parse_piece(shared, &shared->pieces[index]);
}

/* Cuts the text at commas; false when that makes no two pieces. */
static bool cut(struct shared *shared, const char *text, size_t length, size_t piece_bytes) {
    const size_t worth = length / piece_bytes;
    const size_t wanted = worth < PIECES_MOST ? worth : PIECES_MOST;
    const char *const end = text + length;
    const char *begin = text;
    for (size_t n = 1; n < wanted; n++) {
        const char *const from = text + length / wanted * n;
        const char *const comma = from < begin ? NULL : memchr(from, ',', (size_t)(end - from));
        if (comma == NULL)
            continue;
        shared->pieces[shared->count++] = (struct piece){.begin = begin, .end = comma};
        begin = comma + 1;
    }
    shared->pieces[shared->count++] = (struct piece){.begin = begin, .end = end};
    for (size_t n = 0; n < shared->count; n++)
        for (int level = 0; level < NUMBER_MAX_RANK; level++)
            shared->pieces[n].levels[level].regular = true;
    return shared->count > 1;
}

/* Where the elements of each piece go; false when there is no room for them. */
static bool place(struct shared *shared, size_t capacity) {
    size_t first = 0;
    for (size_t n = 0; n < shared->count; n++) {
        shared->pieces[n].first = first;
        if (shared->pieces[n].elements > capacity - first)
            return false;
        first += shared->pieces[n].elements;
    }
    return true;
}

/* Whether arrays of a level end after every `stride` rows, and nowhere else. */
static bool ends_every(const struct shared *shared, int level, size_t stride) {
    for (size_t n = 0; n < shared->count; n++) {
        const struct piece *const piece = &shared->pieces[n];
        const struct endings *const endings = &piece->levels[level];
        const size_t before = piece->first / shared->width / stride;
        const size_t after = (piece->first + piece->elements) / shared->width / stride;
        if (endings->count != after - before || !endings->regular ||
            (endings->count > 0 && endings->first != (before + 1) * stride) ||
            (endings->count > 1 && endings->stride != stride))
            return false;
    }
    return true;
}

/* Of a level that the last piece ends. */
static size_t first_ending(const struct shared *shared, int level) {
    assert(shared->pieces[shared->count - 1].levels[level].count > 0);
    const struct piece *piece = shared->pieces;
    while (piece->levels[level].count == 0)
        piece++;
    return piece->levels[level].first;
}

/* The shape that the pieces' brackets make together; false when that is none. */
static bool join(const struct shared *shared, struct number_array_shape *shape) {
    const int rank = shared->pieces[0].opens;
    int closes = rank;
    for (size_t n = 0; n < shared->count; n++) {
        const struct piece *const piece = &shared->pieces[n];
        if (!piece->right || piece->opens != closes)
            return false;
        closes = piece->closes;
    }
    if (rank == 0 || closes != rank) /* else the last piece ends every level */
        return false;
    size_t rows = 1; /* of an array of the level before */
    shape->rank = rank;
    shape->shape[rank - 1] = shared->width;
    for (int level = 1; level < rank; level++) {
        const size_t stride = first_ending(shared, level);
        if (!ends_every(shared, level, stride))
            return false;
        shape->shape[rank - 1 - level] = stride / rows;
        rows = stride;
    }
    const struct piece *const last = &shared->pieces[shared->count - 1];
    return rows * shared->width == last->first + last->elements; /* nothing but one array */
}

static bool parse_shared(const struct number_team *team, struct shared *shared, const char *text,
                         size_t length, size_t capacity, struct number_array_shape *shape) {
    const char *const row_end = memchr(text, ']', length);
    if (row_end == NULL || !cut(shared, text, length, team->piece_bytes))
        return false;
    shared->width = count_commas(text, row_end) + 1;
    team->share(team, shared->count, count_piece, shared);
    if (!place(shared, capacity))
        return false;
    team->share(team, shared->count, parse_one, shared);
    return join(shared, shape);
}

enum number_result number_array_parse_shared(const struct number_team *team,
                                             const atomic_bool *cancelled, enum number_type type,
                                             const char *text, size_t length, void *out,
                                             size_t capacity, struct number_array_shape *shape,
                                             struct number_fault *fault) {
    /* What is shared is large to clear, and headers have arrays of three numbers. */
    if (team != NULL && length / 2 >= team->piece_bytes) {
        struct shared shared = {.cancelled = cancelled, .type = type, .out = out};
        if (parse_shared(team, &shared, text, length, capacity, shape))
            return NUMBER_OK;
    }
    return number_array_parse_until(cancelled, type, text, length, out, capacity, shape, fault);
}
