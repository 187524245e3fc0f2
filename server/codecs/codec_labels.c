/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of tokens: cut to what anyone would show, and compared with the call's tokens. */
#include <string.h>

#include "server/codecs/codec.h"

struct codec_label codec_label_of(const char *text, size_t length) {
    static const char ellipsis[] = "\xE2\x80\xA6"; /* U+2026 */
    struct codec_label label = {0};
    size_t kept = length;
    const bool cut = kept > sizeof label.text;
    if (cut) {
        kept = sizeof label.text - (sizeof ellipsis - 1);
        while (kept > 0 && ((unsigned char)text[kept] & 0xC0) == 0x80) /* not inside a character */
            kept--;
    }
    memcpy(label.text, text, kept);
    if (cut) {
        memcpy(label.text + kept, ellipsis, sizeof ellipsis - 1);
        kept += sizeof ellipsis - 1;
    }
    label.length = (unsigned char)kept;
    return label;
}

const struct codec_label *codec_labels_at(const struct codec_labels *labels, size_t batch,
                                          size_t token) {
    if (labels->lists == 0)
        return NULL;
    return labels->labels + (labels->lists == 1 ? 0 : batch) * labels->count + token;
}

static enum attn_status check_side(const struct codec_labels *labels, size_t batch, size_t tokens,
                                   const char *side, struct attn_error *error) {
    char pointer[] = "/labels/q";
    pointer[sizeof pointer - 2] = *side;
    if (labels->lists == 0)
        return ATTN_OK;
    if (labels->count != tokens)
        return attn_fail(error, ATTN_BAD_SHAPE, pointer,
                         "Expected a label for each of the T%s = %zu tokens, in one list or in a "
                         "list for each batch item, but %zu came.",
                         side, tokens, labels->count);
    if (labels->lists != 1 && labels->lists != batch)
        return attn_fail(error, ATTN_BAD_SHAPE, pointer,
                         "Expected one list of labels, or one for each of the B = %zu batch items, "
                         "but %zu came.",
                         batch, labels->lists);
    return ATTN_OK;
}

enum attn_status codec_labels_check(const struct codec_request *request,
                                    const struct attn_call *call, struct attn_error *error) {
    const enum attn_status status = check_side(&request->q_labels, call->B, call->Tq, "q", error);
    return status != ATTN_OK ? status
                             : check_side(&request->k_labels, call->B, call->Tk, "k", error);
}
