/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel contract. A kernel turns one task - a run of query rows of all the query heads that
 * share one key/value head - into the unnormalised output and its running (max, sum), and can redo
 * the scores behind it, by columns of tiles or as a walk over pieces. Everything that may be
 * refused has been refused: kernels return nothing and allocate nothing. Tasks of one head may
 * share what is packed of it.
 *
 * A task covers M = G * rows score rows, G = Hq/Hkv; score row g*rows + r is query row row+r of
 * head hkv*G + g. attend may be given a part of the keys (core/chunks.h), scores and walks have
 * them all. Order of operations: scale (Q is prescaled) -> softcap -> bias, ALiBi -> hidden
 * := -inf by selection -> online softmax. The running maximum starts at -inf; a row whose maximum
 * stays -inf has l = 0 and zeros. The sink is not the kernel's: the executor adds it at the end.
 *
 * Numbers: `real` is float under ATTN_PRECISION_FLOAT32 and double under FLOAT64, except that a
 * kernel with accumulates_double works on double in both cases. All buffers of reals below have
 * that type. What a float cannot hold on the way to a finite result must not spoil it: scores of
 * any size, and sums of values of any size, are as if computed in double. Values that are
 * themselves beyond a float are infinite under FLOAT32.
 *
 * Non-finite values: hidden K or V never matter. A visible score of NaN or +inf makes m or l of its
 * row NaN or l NaN. A visible V that is not finite reaches exactly the output elements of rows that
 * give it a weight other than 0.
 *
 * Bits: a task's results depend on the call, the kernel and the build, never on which outputs were
 * asked for, on other tasks, or on the thread.
 */
#ifndef ATTN_CORE_KERNELS_KERNEL_H
#define ATTN_CORE_KERNELS_KERNEL_H

#include "core/call.h"
#include "core/checkpoint.h"

/* Tile sizes of a call; fixed by the call and the kernel alone, anchored at (0,0). */
struct attn_grid {
    size_t row_tile; /* query rows per task (per head), >= 1 */
    size_t key_tile; /* keys per block, >= 1; divides ATTN_KV_GAP_ALIGN */
};

struct attn_rotation;

struct attn_task {
    const struct attn_kernel *kernel;
    const struct attn_call *call;
    struct attn_grid grid;
    size_t b, hkv;
    size_t row, rows; /* rows <= grid.row_tile */
    size_t key, keys; /* what attend is for: whole blocks of the grid, or up to the last key */
    /* The kernel's packed_bytes for this key/value head, shared by all tasks of the head that run;
       NULL when it wants none. */
    void *packed;
    const struct attn_rotation *rotation; /* NULL: none; operand.h's rows are turned by it */
    /* Passed often, every 150 us where that can be: when it stops the kernel returns early with
       garbage. Never while other tasks of the head wait for this one. */
    const struct attn_checkpoint *checkpoint;
};

/* Where attend puts its results: M rows each. In the worker's workspace, aligned to 64 bytes. */
struct attn_partial {
    void *o;           /* real [M][Dv]: sum over visible keys of exp(s - m) * v, over `unit` */
    double *m;         /* [M]: largest visible score, -inf when there is none */
    double *l;         /* [M]: sum over visible keys of exp(s - m) */
    double *unit;      /* [M]: a power of two; not 1 in a row whose sums no real could hold */
    bool *wide;        /* [M]: some score of the row does not fit a real, and m and l are of
                          scores in double */
    uint64_t computed; /* scores computed by this task (elements of tiles that were not skipped) */
};

/* A rectangle of scores to redo: keys [key, key+keys) for all M rows of the task. */
struct attn_score_block {
    enum attn_stage stage;
    size_t key, keys; /* one column of the tile grid, from its beginning */
    /* [M], as attend left them (the executor has added the sink to m and l); read for
       ATTN_STAGE_WEIGHTS only: weight = exp(s - m) / l, hidden 0 */
    const double *m, *l;
    const bool *wide;
    void *out; /* real [M][keys], rows `keys` apart */
};

/* A piece of the scores as a walk hands it out: rows [row, row + rows) of the task's M by keys
   [key, key + keys), real (r, j) at s[r * stride + j]. Read only, and gone when the visit returns.
 */
struct attn_score_piece {
    enum attn_stage stage;
    size_t row, rows;
    size_t key, keys;
    const void *s;
    size_t stride;
};

/*
 * A walk over the scores of all M rows, block by block of keys and each block's rows in pieces.
 * `stages` is either one of RAW, SCALED and CAPPED alone, and then every position is visited; or
 * MASKED, WEIGHTS or both, and SCALED beside them if need be, and then pieces in which the mask
 * hides everything are left out. A piece is visited once per stage, in their order, and the next
 * one thereafter. Bits are those of `scores`.
 */
struct attn_walk {
    unsigned stages;     /* bits 1u << enum attn_stage */
    size_t begin, end;   /* blocks of keys that hold none of these are left out */
    const double *m, *l; /* as in struct attn_score_block */
    const bool *wide;
    /* Whether some of these rows of the M are wanted: pieces of others may be left out. NULL: all
       are. */
    bool (*wants)(const void *closure, size_t row, size_t rows);
    /* Before the pieces of a block: EMPTY when none will come, FULL when they will cover it. */
    void (*block)(void *closure, size_t key, size_t keys, enum attn_tile_class class);
    void (*piece)(void *closure, const struct attn_score_piece *piece);
    void *closure;
};

struct attn_kernel {
    const char *name;     /* as the `kernel` option spells it */
    const char *sentence; /* for GET /v1 and the docs */
    const void *set; /* the kernel's own: what differs between rows that share their functions */
    bool accumulates_double;
    bool visits_hidden;  /* it asks of each position whether it is visible, and skips none */
    bool takes_all_keys; /* attend computes all keys at once: its calls have no chunks */
    /* True when this machine can run it. */
    bool (*available)(void);
    bool products_only; /* it does not compute additive scores */
    bool float32_only;  /* it does not compute under ATTN_PRECISION_FLOAT64 */
    /* The calls it is chosen for when none is named; NULL: all. */
    bool (*prefers)(const struct attn_call *call);
    struct attn_grid (*grid)(const struct attn_kernel *kernel, const struct attn_call *call);
    /* Bytes of workspace for attend and scores, beside the partial's own buffers; 0 on overflow is
       impossible because tiles bound it. */
    size_t (*workspace)(const struct attn_kernel *kernel, const struct attn_call *call,
                        const struct attn_grid *grid);
    /* Bytes that the tasks of one key/value head share, and what must be done with them before the
       first of these. Both NULL when the kernel wants none. */
    size_t (*packed_bytes)(const struct attn_call *call, const struct attn_grid *grid);
    void (*packed_open)(const struct attn_call *call, const struct attn_grid *grid, void *packed);
    void (*attend)(const struct attn_task *task, void *workspace, struct attn_partial *partial);
    void (*scores)(const struct attn_task *task, void *workspace,
                   const struct attn_score_block *block);
    /* NULL where `scores` has to do. False when some score is NaN or does not fit a real: all that
       was visited is void then, and `scores` has to do too. */
    bool (*walk)(const struct attn_task *task, void *workspace, const struct attn_walk *walk);
};

static inline bool attn_walk_takes(const struct attn_walk *walk, enum attn_stage stage) {
    return walk->stages >> stage & 1;
}

static inline bool attn_walk_wants(const struct attn_walk *walk, size_t row, size_t rows) {
    return walk->wants == NULL || walk->wants(walk->closure, row, rows);
}

/* True when the walk looks at what the mask hides as well. */
static inline bool attn_walk_ignores_mask(const struct attn_walk *walk) {
    return walk->stages >> ATTN_STAGE_MASKED == 0;
}

/* True when the kernel computes calls of this kind. */
static inline bool attn_kernel_suits(const struct attn_kernel *kernel,
                                     const struct attn_call *call) {
    return (!kernel->float32_only || call->precision == ATTN_PRECISION_FLOAT32) &&
           (!kernel->products_only || call->score == ATTN_SCORE_SCALED_DOT);
}

/* The kernels in order of preference; the reference is last and runs everywhere. */
const struct attn_kernel *attn_kernel_at(size_t index); /* NULL past the end */
/* The first that is available and has this name or is of this family: "fused" for "fused-avx2".
   NULL: none. */
const struct attn_kernel *attn_kernel_find(const char *name);
/* The names of those that are available, with commas between; text has the size below. */
enum { ATTN_KERNEL_NAMES_SIZE = 160 };
const char *attn_kernel_names(char *text);
/* The processor whose kernels OpenBLAS uses. */
const char *attn_blas_core(void);
/* The first available kernel that is chosen for calls of all shapes. */
const struct attn_kernel *attn_kernel_default(void);
/* The first kernel that is available and suits the call: what it gets when it names none. */
const struct attn_kernel *attn_kernel_choose(const struct attn_call *call);

/* The element size of a kernel's reals for this call. */
static inline size_t attn_kernel_real_size(const struct attn_kernel *kernel,
                                           const struct attn_call *call) {
    return kernel->accumulates_double || call->precision == ATTN_PRECISION_FLOAT64 ? sizeof(double)
                                                                                   : sizeof(float);
}

#endif
