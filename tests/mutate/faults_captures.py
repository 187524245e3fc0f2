# SPDX-License-Identifier: Apache-2.0
"""Faults in calls that are kept, in parts of maps that are redone, in captures and their tiles;
rows as in faults_arithmetic.py."""
KEPT = "core/kept.c"
MASKED = "core/kept_mask.c"
PLACES = "core/call_positions.c"
EXECUTOR = "core/executor.c"
SELECTION = "core/call_map.c"
INTERNAL = "core/map_internal.h"
MAP = "core/map.c"
BINS = "core/map_bins.h"
SCHEDULER = "core/scheduler.c"
LIST = "server/captures/captures.c"
LEVELS = "server/captures/captures_keep.c"
ROOM = "server/captures/captures_room.c"
TILE = "server/captures/capture_tile.c"
CALL = "server/captures/capture_call.c"
TILES = "server/captures/capture_map.c"
PAIRS = "server/captures/compare_values.c"

FAULTS = [
    # another mask
    ("kept: under another mask there were no values", MASKED, "call->Dv = kept->Dv;",
     "call->Dv = 0;", "they are not looked at"),
    ("kept: another mask moves the queries", MASKED,
     "offsets[n] = kept->space.q_offset[n];", "offsets[n] = 0;", "right with as many keys"),
    ("kept: whoever said nothing of places stands at key 0", PLACES,
     "call->placed = call->Tq == call->Tk ||", "call->placed = true ||", "they often do"),
    ("kept: a q_offset of a call whose mask has no use for it is forgotten", PLACES,
     "nodes.causal != NULL || request->q_offset.values != NULL;", "nodes.causal != NULL;",
     "right with as many keys"),
    ("kept: a sample attends to everything", MAP,
     "(!at->call->sampled || wants(", "(true || wants(", "what it shows is right"),
    # what is kept
    ("kept: the mask's lists are the request's", KEPT, "keep_ints(pile, &node.kv_lengths);", "",
     "they are there while the test looks"),
    ("kept: the mask's tensors are the request's", KEPT, "keep_tensor(pile, &node.tensor);", "",
     "masks are lists"),
    ("kept: the bias is the request's", KEPT, "keep_tensor(pile, &kept.call.bias);", "",
     "it is there while the test looks"),
    ("kept: a part has the answer's top_k", SELECTION,
     "call->top_k = 0; /* a kept call has that of its answer */", "", "calls begin with none"),
    ("kept: sinks are the request's", KEPT,
     "call->sink = pile_copy(pile, call->sink, call->Hq, sizeof *call->sink);", "",
     "they are in the rows' sums already"),
    ("kept: elements lie side by side", KEPT, "from_dtype == to_dtype && stride == 1",
     "from_dtype == to_dtype", "they mostly do"),
    ("kept: a broadcast axis is a copy's own", KEPT,
     "tensor->stride[axis] = from.stride[axis] == 0 ? 0 : (ptrdiff_t)count;",
     "tensor->stride[axis] = (ptrdiff_t)count;", "right for whole tensors"),
    ("kept: rows are of one head", EXECUTOR,
     "return (run->task.b * run->call->Hq + h) * run->call->Tq + t - rows->first;",
     "return run->task.b * run->call->Tq + t - rows->first;", "right for one head"),
    ("kept: rows of what is narrowed are the answer's", KEPT,
     "call->rows = kept->narrowed ? NULL : &kept->rows;", "call->rows = &kept->rows;",
     "they are near"),
    ("kept: what float16 does not hold is narrowed", KEPT,
     "(largest >= HALF_NORMAL && largest < overflow)", "largest >= HALF_NORMAL",
     "values are small"),
    ("kept: what float16 loses is narrowed", KEPT,
     "(largest >= HALF_NORMAL && largest < overflow)", "largest < overflow",
     "values are not small"),
    ("kept: whether a row is wide is forgotten", EXECUTOR,
     "run->at.all.wide[row] = rows->wide[at];", "run->at.all.wide[row] = true;",
     "scores fit a float"),

    # what is redone
    ("redone: the first batch item's", INTERNAL, "(at->task->b - at->call->map_batch) * planes",
     "at->task->b * planes", "right for item 0"),
    ("redone: strips of other heads too", MAP,
     "row_counts(call, place.t) && has_head(call, place.h)",
     "row_counts(call, place.t) && place.h == 0", "head 0 is looked at"),
    ("sampled: a bin's first row", BINS, "(bin_begin(axis, bin) + bin_begin(axis, bin + 1)) / 2",
     "bin_begin(axis, bin)", "one row is as good as another"),
    ("last jobs take their turn", SCHEDULER, "(best->last && !job->last) ||", "",
     "they are aged like all"),
    ("last jobs are not interrupted by dear ones", SCHEDULER, "outer->last ? !job->last : ", "",
     "what is cheaper goes first"),

    # captures
    ("captures: ids are enough", LIST,
     "!(belongs(capture, account) && strlen(capture->id) == length",
     "!(strlen(capture->id) == length", "nobody guesses them"),
    ("captures: a pinned one makes room", ROOM, "if (capture->pinned || capture->leaves ||",
     "if (capture->leaves ||", "the oldest goes"),
    ("captures: one in use makes room", ROOM,
     "atomic_load_explicit(&capture->references, memory_order_acquire) != 1)", "false)",
     "it leaves the list"),
    ("captures: a refusal has its price", ROOM, "const bool leaves = enough && capture->leaves;",
     "const bool leaves = capture->leaves;", "they are old"),
    ("captures: nobody has a share", ROOM, "captures->options.bytes / owners}", "0}",
     "each makes room for its own"),
    ("captures: two keys pin all", LIST, "(most - others) / 2", "most - others",
     "right for one key"),
    ("captures: they stay when the key goes", LIST, "if (is_orphan(capture) ||",
     "if (", "their time will be over"),
    ("captures: a pinned one expires", LIST, "!capture->pinned && capture->expires != 0",
     "capture->expires != 0", "its time is over"),
    ("captures: the newest makes room", ROOM, "owner->at = owner->at->previous;",
     "owner->at = owner->at->next;", "somebody has to"),
    ("captures: memory is not given back", ROOM, "    captures->bytes -= bytes;\n", "",
     "the budget has it"),
    ("captures: any head's level", LEVELS,
     "capture->levels[n]->head == head", "true", "one head is looked at"),
    ("captures: no scope is needed", CALL,
     "key != NULL && (key->scopes & 1U << ACCESS_CAPTURES) == 0", "false",
     "the routes ask for it"),
    ("captures: hidden bins are 0", TILE, "bins[n] = TILE_HIDDEN;", "bins[n] = 0;",
     "as in an answer"),
    ("captures: a bin's last cell is left out", TILE, "*end = attn_max_size(*end, *first + 1);",
     "*end = attn_max_size(*end - 1, *first + 1);", "half-open"),
    ("captures: any tile lies on a level", TILE,
     "* tokens / cells != token)\n            return false;",
     "* tokens / cells != token)\n            continue;", "right for whole maps"),
    ("captures: a preview says it is exact", TILES, "map->exact = wanted->preview == 0;",
     "map->exact = true;", "numbers are numbers"),
    ("captures: infinities differ from themselves", PAIRS, "if (a == b || (isnan(a) && isnan(b)))",
     "if (isnan(a) && isnan(b))", "their difference is NaN"),
    ("captures: the last that fails is the first", PAIRS,
     "if (first + n < result->first_failing)", "if (true)", "right for one"),
]
