# SPDX-License-Identifier: Apache-2.0
"""Faults in maps: full ones, bins, the largest of a row, statistics, and the walks that they are
made of; rows as in faults_arithmetic.py."""
FULL = "core/map_full.c"
POOL = "core/map_pool.c"
TOP = "core/map_top.c"
BINS = "core/map_bins.h"
STATS = "core/map_stats.c"
SELECTION = "core/call_map.c"
INTERNAL = "core/map_internal.h"

FAULTS = [
    # full ones
    ("hidden tiles of a map of scores are 0", FULL,
     "reducer->stage == ATTN_STAGE_WEIGHTS ? 0.0 : -INFINITY;", "0.0;", "right for weights"),
    ("every map is of the group's first head", INTERNAL,
     "at->task->hkv * at->group + g,", "at->task->hkv * at->group,", "right without groups"),
    ("a part of a map begins at its tile", FULL, "r * piece->stride + (first - piece->key), first,",
     "r * piece->stride, first,", "right for parts from key 0 on"),
    ("a part of a map has all rows' places", FULL, "plane * call->map_rows + (t - call->map_row)",
     "plane * call->map_rows + t % call->map_rows", "right for parts from row 0 on"),
    ("what a block half shows is what lay there", FULL, "if (class == ATTN_TILE_FULL ||",
     "if (class != ATTN_TILE_EMPTY ||", "its pieces will come"),
    ("a head that is asked for twice comes once", FULL, """\
            attn_store_float(dtype, to, 1, last - first, (const float *)s + from);
""", """\
            attn_store_float(dtype, to, 1, last - first, (const float *)s + from);
        break;
""", "a head has one place"),
    ("a map's rows may end one early", SELECTION, "(uint64_t)range[1] > size",
     "(uint64_t)range[1] >= size", "half-open"),
    ("a pool has fewer bins than rows", SELECTION, "(uint64_t)bins > size",
     "(uint64_t)bins >= size", "half-open"),

    # bins
    ("bins are of one size", BINS, "bin * axis.n / axis.bins;", "bin * (axis.n / axis.bins);",
     "right for whole ratios"),
    ("an element's bin is that of another rounding", BINS, "((at + 1) * axis.bins - 1) / axis.n",
     "at * axis.bins / axis.n", "right for whole ratios"),
    ("a part's bins begin as the first bin does", POOL, "rest == 0 ? 0 : bin * rest % keys.bins",
     "0", "right for pieces from key 0 on"),
    ("mass is a sum over queries", POOL, "sums[n] /= height;", ";", "rows sum to 1, bins do not"),
    ("scores are averaged over hidden rows too", POOL, "sums[n] / counts[n]", "sums[n] / height",
     "right without a mask"),
    ("an empty bin of scores is 0", POOL, "counts[n] == 0 ? -INFINITY : ", "counts[n] == 0 ? 0 : ",
     "a sum of nothing"),
    ("a bin of a maximum begins at 0", POOL, "parts.sums[n] = zero ? 0 : -INFINITY;",
     "parts.sums[n] = 0;", "right for weights"),
    ("a maximum drops NaN", POOL, "more > have || isnan(more) ? more : have",
     "more > have ? more : have", "comparisons do"),
    ("a row counts once per piece of its bin", POOL, "any && *line->counted != bin + 1", "any",
     "right for bins within a block of keys"),
    ("a hidden score is added", POOL, """\
        if (s == -INFINITY)
            continue;
""", "", "right without a mask"),
    ("the mean of heads is their sum", POOL, "if (mean && h + 1 == call->Hq)", "if (false)",
     "one division, at the end"),
    ("the maximum of heads is their mean", POOL, "join(mean ? ATTN_POOL_MASS : ATTN_POOL_MAX,",
     "join(ATTN_POOL_MASS,", "heads have one word"),
    ("heads add to what the answer held", POOL, "if (h > 0)\n", "if (true)\n",
     "memory is zeros, mostly"),
    ("a pooled bin ends with its task", POOL, "return !reach.above && !reach.below &&",
     "return !reach.above &&", "right for tasks of whole bins"),
    ("bins are handed on upwards", POOL, "for (size_t bin = last + 1; bin-- > parts.first;)",
     "for (size_t bin = parts.first; bin <= last; bin++)", "tasks come from the last to the first"),
    ("counted rows are not handed on", POOL, "counts[n] += carry[w + n];", ";",
     "right for tasks of whole bins"),
    ("heads of a group hand on in one place", POOL, "(double *)reducer->carry + g * 2 * w",
     "(double *)reducer->carry", "right without groups"),
    ("rows of two bins are joined", POOL,
     "const size_t last = attn_min_size(end, at->task->row + at->task->rows);",
     "const size_t last = at->task->row + at->task->rows;", "right for bins that are tasks"),
    ("rows of two heads are joined", POOL,
     "const size_t last = attn_min_size(end, at->task->row + at->task->rows);",
     "const size_t last = end;", "right without groups"),
    ("a part of a map is pooled from its piece's begin", POOL,
     "row * piece->stride + line.first + reducer->at->call->map_col - piece->key",
     "row * piece->stride", "right for parts from key 0 on"),

    # the largest of a row
    ("of equals the higher key comes first", TOP, "(uint32_t)a.key > (uint32_t)b.key",
     "(uint32_t)a.key < (uint32_t)b.key", "ties"),

    # statistics
    ("entropy has the other sign in statistics", STATS,
     "log(at->l[index]) * sum - row->moments", "row->moments[ATTN_MOMENT_SCORE] - "
     "log(at->l[index]) * sum + 0 * row->moments", "a sign"),
    ("entropy is divided by ln of all keys", STATS, "entropy / log(seen)",
     "entropy / log((double)at->call->Tk)", "right without a mask"),
    ("key 0's share is of all rows", STATS, "head->first / first_rows", "head->first / rows",
     "right where all rows see it"),
    ("empty rows count in the mean", STATS, """\
        head->empty++;
        return;
""", """\
        head->empty++;
        head->rows++;
        return;
""", "right where all rows see something"),
    ("variance within blocks of keys alone", STATS, "+= more[ATTN_SPREAD_SQUARES] + between",
     "+= more[ATTN_SPREAD_SQUARES] + 0 * between", "right for one row of one block"),
    ("a number behind NaN takes its place in statistics", STATS,
     "return candidate > best || isnan(candidate) ? candidate : best;",
     "return candidate <= best ? best : candidate;", "right where NaN comes last"),
    ("what a key received is averaged over all rows", STATS,
     "seen[j] == 0 ? 0 : received[j] / seen[j];",
     "seen[j] == 0 ? 0 : received[j] / (double)at->call->Tq;", "right without a mask"),
    ("a sink takes nothing", STATS,
     "return exp((at->wide ? sink : (double)(float)sink) - at->m[row]) / at->l[row];", "return 0;",
     "weights of visible keys are all that comes back"),
]
