/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are no options here: misspellings, other libraries' words, and later versions'. */
#include <string.h>

#include "core/checked.h"
#include "server/edit_distance.h"
#include "server/options/options_table.h"

enum { NAME_MAX_LENGTH = 32 };

/* What other libraries call things, and how the same is said here. */
const struct options_hint ATTENTION_HINTS[] = {
    {"query", "The query tensor is called q"},
    {"queries", "The query tensor is called q"},
    {"query_states", "The query tensor is called q"},
    {"Q", "Names are lower-case: q"},
    {"key", "The key tensor is called k"},
    {"keys", "The key tensor is called k"},
    {"key_states", "The key tensor is called k"},
    {"K", "Names are lower-case: k"},
    {"value", "The value tensor is called v"},
    {"values", "The value tensor is called v"},
    {"value_states", "The value tensor is called v"},
    {"V", "Names are lower-case: v"},
    {"is_causal",
     "Say \"mask\": \"causal\" (with an align when queries and keys differ in number)"},
    {"causal", "Say \"mask\": \"causal\""},
    {"attn_mask", "A boolean mask is \"mask\": {\"type\": \"allow\", \"tensor\": ...} (true is "
                  "visible) or \"hide\"; an additive one is \"bias\""},
    {"attention_mask", "A mask [B,Tk] of ones and zeros is \"mask\": {\"type\": \"padding\", "
                       "\"keep\": ...}; an additive one is \"bias\""},
    {"key_padding_mask",
     "Say \"mask\": {\"type\": \"padding\", \"keep\": ...}; here 1 keeps a key, "
     "so invert a mask in which true means padding"},
    {"attn_bias", "The additive tensor is called bias"},
    {"attention_bias", "The additive tensor is called bias"},
    {"mask_filter_value", "What is hidden is -inf, by a mask or a bias of \"-Infinity\""},
    {"unidirectional", "Say \"mask\": {\"type\": \"causal\", \"align\": \"top_left\"}"},
    {"score_mod", "Say what it adds with bias or alibi, and what it hides with mask"},
    {"block_mask", "Say it as a mask expression: causal, window, padding, segments, ..."},
    {"mask_mod", "Say it as a mask expression: causal, window, padding, segments, ..."},
    {"softmax_scale", "It is called scale"},
    {"sm_scale", "It is called scale"},
    {"scaling", "It is called scale"},
    {"query_pre_attn_scalar", "Say \"scale\": ..., one over its square root"},
    {"score_mode", "It is called score: \"scaled_dot\", or {\"type\": \"additive\", \"w\": ...}"},
    {"score_type", "It is called score: \"scaled_dot\", or {\"type\": \"additive\", \"w\": ...}"},
    {"attention_type",
     "It is called score: \"scaled_dot\", or {\"type\": \"additive\", \"w\": ...}"},
    {"use_scale", "Say \"scale\": \"none\" for scores without 1/sqrt(D)"},
    {"logit_cap", "It is called softcap"},
    {"logits_soft_cap", "It is called softcap"},
    {"attn_logit_softcapping", "It is called softcap"},
    {"alibi_slopes", "It is called alibi, and takes true or the slopes"},
    {"sinks", "It is called sink: one logit per query head"},
    {"s_aux", "It is called sink: one logit per query head"},
    {"head_sink", "It is called sink: one logit per query head"},
    {"learnable_sink", "It is called sink: one logit per query head"},
    {"smooth_softmax", "Say \"sink\": [0, ...], one 0 per query head"},
    {"add_zero_attn", "Say \"sink\": [0, ...], one 0 per query head"},
    {"add_bias_kv", "Append the key and the value to k and v"},
    {"rotary", "It is called rope: {\"theta\": 10000}"},
    {"rotary_emb", "Say it with rope: {\"theta\": 10000}"},
    {"rotary_embedding", "Say it with rope: {\"theta\": 10000}"},
    {"rotary_pos_emb", "Say it with rope: {\"theta\": 10000}"},
    {"do_rotary", "Say it with rope: {\"theta\": 10000}"},
    {"rope_theta", "Say \"rope\": {\"theta\": ...}"},
    {"rotary_base", "Say \"rope\": {\"theta\": ...}"},
    {"rotary_emb_base", "Say \"rope\": {\"theta\": ...}"},
    {"theta", "It stands in rope: {\"theta\": ...}"},
    {"inv_freq", "It stands in rope: {\"inv_freq\": [...]}"},
    {"rope_scaling", "Send the scaled frequencies: \"rope\": {\"inv_freq\": [...]}"},
    {"rotary_dim", "Say \"rope\": {\"dims\": ...}"},
    {"rotary_embedding_dim", "Say \"rope\": {\"dims\": ...}"},
    {"partial_rotary_factor", "Say \"rope\": {\"dims\": ...}, which is the factor times D"},
    {"rotary_interleaved", "Say \"rope\": {\"interleaved\": true}"},
    {"interleaved", "It stands in rope: {\"interleaved\": true}"},
    {"rotary_cos", "Tables are made here: send the frequencies as \"rope\": {\"inv_freq\": [...]}"},
    {"rotary_sin", "Tables are made here: send the frequencies as \"rope\": {\"inv_freq\": [...]}"},
    {"cos_cache", "Tables are made here: send the frequencies as \"rope\": {\"inv_freq\": [...]}"},
    {"sin_cache", "Tables are made here: send the frequencies as \"rope\": {\"inv_freq\": [...]}"},
    {"freqs_cis", "Tables are made here: send the frequencies as \"rope\": {\"inv_freq\": [...]}"},
    {"k_offset", "It stands in rope: {\"k_offset\": ...}; elsewhere keys count from 0"},
    {"position_ids",
     "Rows stand one after the other from q_offset on; rope has a k_offset as well"},
    {"window_size", "Say \"mask\": {\"type\": \"window\", \"left\": ..., \"right\": ...}"},
    {"sliding_window", "Say \"mask\": {\"type\": \"window\", \"left\": size - 1, \"right\": 0}"},
    {"local_window_size", "Say \"mask\": {\"type\": \"window\", \"left\": ..., \"right\": ...}, "
                          "where left does not count the query's own key"},
    {"left_window_size", "Say \"mask\": {\"type\": \"window\", \"left\": ..., \"right\": ...}"},
    {"right_window_size", "Say \"mask\": {\"type\": \"window\", \"left\": ..., \"right\": ...}"},
    {"attention_window",
     "Say \"mask\": {\"type\": \"window\", \"left\": ..., \"right\": ...}: how many "
     "keys to either side, not how many in all"},
    {"global_attention_mask",
     "Say \"mask\": {\"type\": \"global\", \"tokens\": [...]}, the positions "
     "at which it is 1; beside a window, join them with any"},
    {"global_tokens", "Say \"mask\": {\"type\": \"global\", \"tokens\": [...]}"},
    {"dilation", "Say \"mask\": {\"type\": \"dilated\", \"width\": ..., \"stride\": ...}"},
    {"enable_gqa", "It is not needed: k and v may have fewer heads than q, in a whole ratio"},
    {"need_weights", "Say \"weights\": true"},
    {"output_attentions", "Say \"weights\": true"},
    {"return_weights", "Say \"weights\": true"},
    {"average_attn_weights",
     "The map comes back per head; \"weights\": {\"heads\": \"mean\"} is their average"},
    {"compress", "It stands in the query string: ?compress=gzip"},
    {"return_lse", "Say \"return\": [\"output\", \"lse\"]"},
    {"return_softmax_lse", "Say \"return\": [\"output\", \"lse\"]"},
    {"return_residual", "Say \"return\": [\"output\", \"lse\"]"},
    {"return_attn_probs", "Say \"weights\": true, or \"return\": [\"output\", \"lse\"]"},
    {"qk_matmul_output_mode",
     "Say \"weights\": {\"stage\": ...}: scaled, capped, masked or weights "
     "for 0 to 3"},
    {"softmax_precision", "It is called precision: \"float32\" or \"float64\""},
    {"cu_seqlens", "Pad the batch and give the lengths: \"mask\": {\"type\": \"padding\", "
                   "\"kv_lengths\": [...], \"q_lengths\": [...]}; or use segments"},
    {"cu_seqlens_q", "Pad the batch and give q_lengths in a padding mask; or use segments"},
    {"cu_seqlens_k", "Pad the batch and give kv_lengths in a padding mask; or use segments"},
    {"max_seqlen_q", "It follows from the tensors: pad the batch to it"},
    {"max_seqlen_k", "It follows from the tensors: pad the batch to it"},
    {"seqused_q",
     "Say \"mask\": {\"type\": \"padding\", \"kv_lengths\": [...], \"q_lengths\": [...]}"},
    {"seqused_k", "Say \"mask\": {\"type\": \"padding\", \"kv_lengths\": [...]}"},
    {"query_seq_lengths", "Say \"mask\": {\"type\": \"padding\", \"kv_lengths\": [...], "
                          "\"q_lengths\": [...]}"},
    {"key_value_seq_lengths", "Say \"mask\": {\"type\": \"padding\", \"kv_lengths\": [...]}"},
    {"nonpad_kv_seqlen", "Say \"mask\": {\"type\": \"padding\", \"kv_lengths\": [...]}"},
    {"seqlens_k",
     "Say \"mask\": {\"type\": \"padding\", \"kv_lengths\": [...]}, each one more than "
     "in seqlens_k, which is the length less one"},
    {"cache_seqlens",
     "Say \"mask\": {\"type\": \"padding\", \"kv_lengths\": [...]}, which count the "
     "new tokens too"},
    {"total_sequence_length", "It is how many keys k has"},
    {"k_cache", "Send all keys as k, the cached ones first"},
    {"v_cache", "Send all values as v, the cached ones first"},
    {"past_key", "Send all keys as k, the past ones first"},
    {"past_value", "Send all values as v, the past ones first"},
    {"past_key_values", "Send all keys and values as k and v, the past ones first"},
    {"cache_batch_idx", "Gather the rows of k and v before the call"},
    {"block_table", "Gather the pages to k and v before the call"},
    {"embed_dim", "It follows from the tensors; give num_heads to split [B,T,H*D]"},
    {"kdim", "It follows from the tensors; projections are the client's"},
    {"vdim", "It follows from the tensors; projections are the client's"},
    {"batch_first", "The batch comes first, always: [B,T,H*D]"},
    {"num_attention_heads", "It is called num_heads"},
    {"q_num_heads", "It is called num_heads"},
    {"nheads", "It is called num_heads"},
    {"heads", "It is num_heads for splitting [B,T,H*D], or \"weights\": {\"heads\": [...]}"},
    {"num_key_value_heads", "It is called num_kv_heads"},
    {"kv_num_heads", "It is called num_kv_heads"},
    {"stage", "It stands in the map's object: \"weights\": {\"stage\": \"raw\"}"},
    {"rows", "They stand in the map's object: \"weights\": {\"rows\": [0, 16]}"},
    {"cols", "They stand in the map's object: \"weights\": {\"cols\": [0, 16]}"},
    {"align", "It stands in the mask: {\"type\": \"causal\", \"align\": \"bottom_right\"}"},
    {"dtype", "Tensors carry their own dtype; the answer's is output_dtype"},
    {"deterministic", "Answers always are: bits do not depend on threads or load"},
    {"num_splits", "It is not needed: the work is split by itself, and bits do not depend on it"},
    {"implementation", "It is called kernel; GET /v1 lists those there are"},
    {"timeout", "It is called timeout_ms"},
    {"arr_0", "numpy calls so what is saved without a name: np.savez(file, q=q, k=k, v=v)"},
    {"text", "It takes q, k and v, which the model makes of the text's tokens"},
    {"prompt", "It takes q, k and v, which the model makes of the text's tokens"},
    {"input_ids", "It takes q, k and v, which the model makes of them"},
    {NULL, NULL},
};

static const char *const TRAINING[] = {
    "dropout",      "dropout_p", "dropout_rate", "attn_dropout", "attention_dropout",
    "dropout_seed", "p"};

static bool is_among(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

const char *options_nearest(const char *name, const char *const *candidates) {
    const char *best = NULL;
    const size_t length = strlen(name);
    if (length > NAME_MAX_LENGTH)
        return NULL;
    size_t least = 1 + attn_max_size(length / 3, 1);
    for (; *candidates != NULL; candidates++) {
        const size_t edits = edit_distance(name, *candidates);
        if (edits < least) {
            least = edits;
            best = *candidates;
        }
    }
    return best;
}

static const char *nearest_option(const struct codec_schema *schema, const char *name) {
    const char *names[OPTIONS_MAX + 1] = {NULL};
    for (size_t i = 0; i < schema->option_count; i++)
        names[i] = schema->options[i].name;
    return options_nearest(name, names);
}

enum attn_status options_refuse_missing(const struct options *options, const char *name,
                                        const char *pointer) {
    return attn_fail(options->reader.error, ATTN_MISSING_FIELD, pointer,
                     "The request lacks %s. %s needs the tensors %s.", name, options->schema->title,
                     options->schema->members);
}

enum attn_status options_refuse_unknown(const struct options *options, const char *name,
                                        const char *pointer) {
    const struct codec_schema *const schema = options->schema;
    struct attn_error *const error = options->reader.error;
    char shown[64];
    json_snippet(name, strlen(name), 0, shown, sizeof shown);
    if (is_among(name, TRAINING, sizeof TRAINING / sizeof *TRAINING))
        return attn_fail(error, ATTN_TRAINING_ONLY, pointer,
                         "Dropout belongs to training; this service only infers, where dropout is "
                         "off. Leave %s out. Attention that collapses on one token shows in the "
                         "weights.",
                         shown);
    for (const struct options_hint *hint = schema->hints; hint->name != NULL; hint++)
        if (strcmp(name, hint->name) == 0)
            return attn_fail(error, ATTN_UNKNOWN_FIELD, pointer, "There is no %s here. %s.", shown,
                             hint->sentence);
    const char *const nearest = nearest_option(schema, name);
    if (nearest != NULL && strcmp(nearest, name) == 0)
        return attn_fail(
            error, ATTN_UNKNOWN_FIELD, pointer,
            "%s is an option. It stands among the options, or names a tensor there; it "
            "is no tensor by itself.",
            shown);
    if (nearest != NULL)
        return attn_fail(error, ATTN_UNKNOWN_FIELD, pointer,
                         "There is no \"%s\". Did you mean \"%s\"?", shown, nearest);
    return attn_fail(error, ATTN_UNKNOWN_FIELD, pointer,
                     "There is no \"%s\": %s. Leave it out, or look at /docs for what there is.",
                     shown, schema->unknown);
}
