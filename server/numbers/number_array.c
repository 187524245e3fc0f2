/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over the brackets of a nested JSON array: finds its shape, hands innermost arrays to
 * number_row.c. Refuses ragged shapes, more than NUMBER_MAX_RANK levels and text after the array,
 * and says where the first fault is. Uses no recursion: depth is bounded by the rank's limit.
 */
#include "server/numbers/number_decimal.h"
#include "server/numbers/number_row.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static enum number_result open_array(struct number_walk *walk) {
    if (walk->rank != 0 && walk->depth == walk->rank)
        return NUMBER_RAGGED;
    if (walk->depth == NUMBER_MAX_RANK)
        return NUMBER_TOO_DEEP;
    walk->count[walk->depth++] = 0;
    walk->at = number_skip_space(walk->at + 1, walk->end);
    return NUMBER_OK;
}

/* At the ']' of the innermost open array. */
static enum number_result close_array(struct number_walk *walk) {
    const int axis = walk->depth - 1;
    if (!walk->known[axis]) {
        walk->known[axis] = true;
        walk->shape[axis] = walk->count[axis];
    }
    walk->depth = axis;
    if (walk->shape[axis] != walk->count[axis])
        return NUMBER_RAGGED;
    if (axis > 0)
        walk->count[axis - 1]++;
    walk->at = number_skip_space(walk->at + 1, walk->end);
    return NUMBER_OK;
}

/* Closes arrays until a comma leads to a next element, or depth is 0. */
static enum number_result close_arrays(struct number_walk *walk) {
    while (walk->depth > 0) {
        const unsigned char next = number_peek(walk->at, walk->end);
        if (next == ',') {
            walk->at = number_skip_space(walk->at + 1, walk->end);
            return NUMBER_OK;
        }
        if (next != ']')
            return NUMBER_MALFORMED;
        const enum number_result result = close_array(walk);
        if (result != NUMBER_OK)
            return result;
    }
    return NUMBER_OK;
}

/* An element that is no array, where the walk is. */
static enum number_result parse_elements(struct number_walk *walk) {
    if (walk->rank == 0)
        walk->rank = walk->depth;
    if (walk->depth == walk->rank)
        return number_parse_row(walk);
    return number_judge_misplaced(walk);
}

static enum number_result walk_arrays(struct number_walk *walk) {
    enum number_result result = open_array(walk);
    while (result == NUMBER_OK && walk->depth > 0) {
        const unsigned char next = number_peek(walk->at, walk->end);
        if (next == '[') {
            result = open_array(walk);
            continue;
        }
        if (next == ']' && walk->count[walk->depth - 1] == 0)
            walk->rank = walk->rank == 0 ? walk->depth : walk->rank;
        else
            result = parse_elements(walk);
        if (result == NUMBER_OK)
            result = close_arrays(walk);
    }
    if (result == NUMBER_OK && walk->at != walk->end)
        return NUMBER_MALFORMED;
    return result;
}

/* Whatever stands in the place of the whole array. */
static enum number_result judge_non_array(struct number_walk *walk) {
    const enum number_result result = number_judge_misplaced(walk);
    return result == NUMBER_MALFORMED ? NUMBER_MALFORMED : NUMBER_WRONG_TYPE;
}

enum number_result number_array_parse(enum number_type type, const char *text, size_t length,
                                      void *out, size_t capacity, struct number_array_shape *shape,
                                      struct number_fault *fault) {
    return number_array_parse_until(NULL, type, text, length, out, capacity, shape, fault);
}

enum number_result number_array_parse_until(const atomic_bool *cancelled, enum number_type type,
                                            const char *text, size_t length, void *out,
                                            size_t capacity, struct number_array_shape *shape,
                                            struct number_fault *fault) {
    assert((unsigned)type < NUMBER_TYPE_COUNT);
    struct number_walk walk = {
        .text = text, .at = number_skip_space(text, text + length), .end = text + length};
    walk.out = out;
    walk.capacity = capacity;
    walk.type = type;
    walk.cancelled = cancelled;
    const enum number_result result =
        number_peek(walk.at, walk.end) == '[' ? walk_arrays(&walk) : judge_non_array(&walk);
    if (result == NUMBER_OK) {
        shape->rank = walk.rank;
        memcpy(shape->shape, walk.shape, sizeof shape->shape);
        return NUMBER_OK;
    }
    fault->offset = (size_t)(walk.at - text);
    fault->depth = walk.depth;
    memcpy(fault->index, walk.count, sizeof fault->index);
    return result;
}

void number_fault_pointer(const struct number_fault *fault, char out[NUMBER_POINTER_ROOM]) {
    size_t length = 0;
    out[0] = 0;
    for (int i = 0; i < fault->depth; i++)
        length +=
            (size_t)snprintf(out + length, NUMBER_POINTER_ROOM - length, "/%zu", fault->index[i]);
}

enum number_result number_parse_double(const char *text, size_t length, double *value) {
    struct number_decimal decimal;
    const char *const end = number_scan(text, text + length, &decimal);
    if (!decimal.valid || end != text + length)
        return NUMBER_MALFORMED;
    uint64_t bits;
    const enum number_result result = number_round(&decimal, NUMBER_F64, &bits);
    if (result == NUMBER_OK)
        memcpy(value, &bits, sizeof *value);
    return result;
}
