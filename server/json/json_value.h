/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed values out of a JSON document: numbers, words, lists, or a sentence about what came
 * instead. All refuse with BAD_TYPE for another JSON type, NUMBER_RANGE or BAD_VALUE for a number
 * that does not fit, MALFORMED for numbers that are not JSON, and NO_MEMORY.
 */
#ifndef SERVER_JSON_JSON_VALUE_H
#define SERVER_JSON_JSON_VALUE_H

#include "core/mask.h"
#include "core/request.h"
#include "server/json/json_document.h"
#include "server/numbers/numbers.h"
#include "server/storage.h"

/* Where values go and where failures are told; borrowed. */
struct json_reader {
    struct storage *storage;
    struct attn_error *error;
    const atomic_bool *cancelled;   /* NULL: never; see codec_input */
    const struct number_team *team; /* NULL: nobody helps */
};

/* The refusal of a reader that was told to end. */
enum attn_status json_reader_cancelled(const struct json_reader *reader);

enum { JSON_DESCRIPTION_ROOM = 96, JSON_POINTER_ROOM = 128 };

/* "null", "the number 1.5", "the text \"auto\"", "a list", for sentences. Returns out. */
const char *json_value_describe(struct json_value value, char out[JSON_DESCRIPTION_ROOM]);

/* `base` + "/" + name with ~ and / escaped as JSON pointers want it. Returns out. */
const char *json_pointer_member(char out[JSON_POINTER_ROOM], const char *base, const char *name);
const char *json_pointer_index(char out[JSON_POINTER_ROOM], const char *base, size_t index);

/* One of `count` words; their list is in the refusal (BAD_VALUE). */
enum attn_status json_value_word(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, const char *const *words, size_t count,
                                 size_t *index);

/* A whole number within [least, most]. */
enum attn_status json_value_int(const struct json_reader *reader, struct json_value value,
                                const char *pointer, int64_t least, int64_t most, int64_t *out);

/* A finite number. */
enum attn_status json_value_real(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, double *out);

/* A list of whole numbers, or one number as a list of one. Taken from the reader's storage. */
enum attn_status json_value_ints(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, struct attn_int_list *out);
enum attn_status json_value_reals(const struct json_reader *reader, struct json_value value,
                                  const char *pointer, struct attn_real_list *out);

/*
 * The text of a TEXT or LONG_TEXT value without its escapes, in *text and *length: where it stands
 * or, when it had to be written anew, in the reader's storage. Bytes of a LONG_TEXT that are no
 * escapes are unchecked.
 */
enum attn_status json_value_text(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, const char **text, size_t *length);

/*
 * The text of an array, cut or not, and an upper bound of its numbers. *owned is to free() after
 * use, or NULL.
 */
struct json_array_text {
    const char *text;
    size_t length;
    size_t room;   /* numbers at most */
    size_t offset; /* of text in the document, 0 when `owned` */
    char *owned;
};
enum attn_status json_value_array_text(const struct json_reader *reader, struct json_value value,
                                       struct json_array_text *out);

/* Parses an array into memory of the reader's storage. `what` names the type: "float32". */
enum attn_status json_value_numbers(const struct json_reader *reader, struct json_value value,
                                    const char *pointer, enum number_type type, const char *what,
                                    void **out, struct number_array_shape *shape);

/* Bytes of one element of a number_type. */
size_t json_number_size(enum number_type type);

#endif
