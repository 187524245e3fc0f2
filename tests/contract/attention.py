# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with an attention call that fits its schema."""
import math

from faults import broadcasts
from masks import MaskJudge, read_mask_tensors
from request import NPY_TYPE, NPZ_TYPE, PICTURE_TYPE

# The daemon's own limits, at their defaults.
MOST_RESULT, MOST_FLOPS, MOST_ROWS, MOST_HEADS = 1 << 30, 1e15, 1 << 28, 1 << 20
MOST_PANELS = 64
FURTHEST, FASTEST = 2 ** 53, 1e9
# What JSON makes of a number, and what a planner may add to one that is estimated here.
SLACK = 64


def output_dtype(options, dtype):
    """Of the answer's output: as asked for, float64 under that precision, or as the operands."""
    wide = "float64" if options.get("precision") == "float64" else dtype
    return options.get("output_dtype", wide)


class Axes:
    """An operand over B, H, T and its width."""

    def __init__(self, tensor, call):
        shape = tensor.shape
        if tensor.rank == 2:
            self.B, self.H, self.T, self.W = 1, 1, *shape
        elif tensor.rank == 3 and call.split:
            self.B, self.H, self.T, self.W = shape[0], None, shape[1], shape[2]
        elif tensor.rank == 3:
            self.B, self.H, self.T, self.W = 1, *shape
        elif call.layout == "bthd":
            self.B, self.T, self.H, self.W = shape
        else:
            self.B, self.H, self.T, self.W = shape

    def split(self, heads):
        if self.W % heads:
            return False
        self.H, self.W = heads, self.W // heads
        return True


class AttentionJudge:
    def __init__(self, request, kernels):
        self.request, self.options, self.faults = request, request.options, request.faults
        self.kernels = kernels
        self.layout = self.options.get("layout")
        self.split = "num_heads" in self.options

    def judge(self):
        self._read_named()
        if self._sizes():
            self._judge_mask()
            self._judge_rope()
            self._judge_lists()
            self._judge_map()
            self._judge_limits()
            self._judge_labels()
            if self.request.answer_type == PICTURE_TYPE:
                self._judge_picture()
            elif self.request.answer_type in (NPZ_TYPE, NPY_TYPE):
                self._judge_arrays()
        self._judge_kernel()

    def _read_named(self):
        """What options name or hold is read, whether or not the operands fit each other."""
        request, options = self.request, self.options
        read_mask_tensors(request, options.get("mask", []))
        if "bias" in options:
            request.tensor(options["bias"], "real", "bad-value")
        for value in (options.get("alibi"), options.get("sink"),
                      options.get("rope", {}).get("inv_freq")):
            if value is not None and not isinstance(value, bool):
                request.reals(value)
        for holder in (options, options.get("rope", {})):
            if "q_offset" in holder:
                request.ints(holder["q_offset"])
        if isinstance(options.get("score"), dict) and "w" in options["score"]:
            request.tensor(options["score"]["w"], "real", "bad-value", "float64")

    def _operands(self):
        tensors = [self.request.operand(name) for name in ("q", "k", "v")]
        if any(tensor is None for tensor in tensors):
            if any(name not in self.request.operands for name in ("q", "k", "v")):
                self.faults.add("missing-field")
            return None
        q = tensors[0]
        for tensor in tensors:
            if not tensor.is_float or tensor.dtype != q.dtype:
                self.faults.add("bad-dtype")
            if not 2 <= tensor.rank <= 4 or tensor.rank != q.rank:
                self.faults.add("bad-shape")
        self.dtype, self.rank = q.dtype, q.rank
        return None if self.faults.must & {"bad-dtype", "bad-shape"} else tensors

    def _sizes(self):
        """False when no sizes can be told."""
        tensors = self._operands()
        if tensors is None:
            return False
        heads = self.options.get("num_heads"), self.options.get("num_kv_heads")
        if any(heads) and self.rank != 3 or (heads[1] and not heads[0]) or \
                (self.layout and self.rank != 4):
            self.faults.add("bad-value")
            return False
        q, k, v = (Axes(tensor, self) for tensor in tensors)
        if self.split:
            kv = heads[1] or heads[0]
            if not (q.split(heads[0]) and k.split(kv) and v.split(kv)):
                self.faults.add("bad-shape")
                return False
        if not (q.B == k.B == v.B and q.W == k.W and k.T == v.T and k.H == v.H) or \
                (q.H != 0 if k.H == 0 else q.H % k.H):
            self.faults.add("bad-shape")
            return False
        self.B, self.Hq, self.Hkv, self.Tq, self.Tk = q.B, q.H, k.H, q.T, k.T
        self.D, self.Dv = q.W, v.W
        return True

    def _judge_mask(self):
        mask = self.mask = MaskJudge(self.request, self)
        if "mask" in self.options:
            mask.judge(self.options["mask"])
        offsets, given = [0], "q_offset" in self.options
        if given:
            offsets = self.request.ints(self.options["q_offset"])
            if offsets is not None and len(offsets) not in (1, self.B):
                self.faults.add("bad-value")
            if mask.aligns:
                self.faults.add("bad-value")
        elif mask.aligns:
            offsets = self._aligned(mask)
        else:
            alibi = self.options.get("alibi", False)
            rope = self.options.get("rope")
            if self.Tq != self.Tk and (mask.positional or alibi is not False or
                                       (rope is not None and "q_offset" not in rope)):
                self.faults.add("ambiguous-alignment")
        self.offsets = offsets

    def _aligned(self, mask):
        if mask.aligns[0] == "top_left" or not self.B:
            return [0]
        keys, queries = mask.padding[-1] if mask.padding else ([self.Tk], None)
        queries = queries or [self.Tq]
        count = max(len(keys), len(queries))
        return [keys[b % len(keys)] - queries[b % len(queries)] for b in range(count)]

    def _judge_rope(self):
        rope = self.options.get("rope")
        if rope is None:
            return
        dims = rope.get("dims", self.D)
        if self.D < 2 or dims % 2 or dims > self.D or ("theta" in rope and "inv_freq" in rope):
            self.faults.add("bad-value")
        if "inv_freq" in rope:
            frequencies = self.request.reals(rope["inv_freq"])
            if frequencies is not None and (len(frequencies) != dims // 2 or not all(
                    abs(frequency) <= FASTEST for frequency in frequencies)):
                self.faults.add("bad-value")
        offsets = self.offsets
        if "q_offset" in rope:
            offsets = self.request.ints(rope["q_offset"])
            if offsets is not None and len(offsets) not in (1, self.B):
                self.faults.add("bad-value")
        self._reach(offsets or [], self.Tq)
        self._reach([rope.get("k_offset", 0)], self.Tk)

    def _reach(self, offsets, rows):
        if any(not -FURTHEST <= offset <= FURTHEST - max(rows - 1, 0) for offset in offsets):
            self.faults.add("bad-value")

    def _judge_lists(self):
        alibi, sink = self.options.get("alibi", False), self.options.get("sink")
        if not isinstance(alibi, bool):
            self._per_head(alibi, -1e300)
        if sink is not None:
            self._per_head(sink, -math.inf)
        if "bias" in self.options:
            bias = self.request.tensor(self.options["bias"], "real", "bad-value")
            if bias is not None and not bias.is_float:
                self.faults.add("bad-dtype")
            elif bias is not None and not broadcasts(bias.shape,
                                                     [self.B, self.Hq, self.Tq, self.Tk]):
                self.faults.add("bad-shape")
            elif bias is not None and math.inf in bias.data:
                self.faults.add("bad-value")
        score = self.options.get("score")
        if isinstance(score, dict) and "w" in score:
            self._weights(self.request.tensor(score["w"], "real", "bad-value", "float64"))

    def _per_head(self, value, lowest):
        values = self.request.reals(value)
        if values is not None and (len(values) not in (1, self.Hq) or not all(
                lowest <= item < math.inf for item in values)):
            self.faults.add("bad-value")

    def _weights(self, w):
        if w is None:
            return
        if not w.is_float:
            self.faults.add("bad-dtype")
        elif w.shape not in ([self.D], [self.Hq, self.D], [1, self.D]):
            self.faults.add("bad-shape")
        elif not all(map(math.isfinite, w.data)):
            self.faults.add("bad-value")

    @property
    def returns(self):
        names = self.options.get("return", [])
        names = {names} if isinstance(names, str) else set(names)
        weights = self.options.get("weights", False)
        if weights is not False and not names:
            names.add("output")
        if weights is True or (isinstance(weights, dict) and "scores" not in names):
            names.add("weights")
        return names or {"output"}

    def _judge_map(self):
        selection = self.options.get("weights", False)
        self.map = [self.Hq, self.Tq, self.Tk]
        if not isinstance(selection, dict):
            return
        for place, (name, size) in enumerate((("rows", self.Tq), ("cols", self.Tk)), 1):
            first, end = selection.get(name, (0, size))
            if not 0 <= first <= end <= size:
                self.faults.add("bad-value")
            self.map[place] = max(end - first, 0)
            pool = selection.get("pool")
            if pool is not None:
                if not 1 <= pool[name] <= self.map[place]:
                    self.faults.add("bad-value")
                self.map[place] = min(self.map[place], pool[name])
        heads = selection.get("heads")
        if isinstance(heads, (int, list)):
            heads = [heads] if isinstance(heads, int) else heads
            if any(not 0 <= head < self.Hq for head in heads) or \
                    (self.rank == 2 and len(heads) != 1):
                self.faults.add("bad-value")
            self.map[0] = len(heads)
        elif heads is not None:
            self.map[0] = min(self.Hq, 1)
        if "top_k" in selection:
            self.map[2] = selection["top_k"]
            if self.Tk > 2 ** 31 or "pool" in selection or heads in ("mean", "max") or \
                    {"weights", "scores"} <= self.returns:
                self.faults.add("bad-value")

    def _judge_limits(self):
        rows = max(self.B, 1) * max(self.Hq, 1) * max(self.Tq, 1)
        if rows > MOST_ROWS or self.Hq > MOST_HEADS:
            self.faults.add("too-much-work")
        elements = 0
        if "output" in self.returns:
            elements += self.B * self.Hq * self.Tq * self.Dv
        if {"weights", "scores"} & self.returns:
            elements += self.B * math.prod(self.map)
        if "col_sums" in self.returns:
            elements += self.B * self.Hq * self.Tk
        if elements * 2 > MOST_RESULT:
            self.faults.add("result-too-large")
        if elements * SLACK > MOST_RESULT:
            self.faults.may.add("result-too-large")
        work = self.B * self.Hq * self.Tq * self.Tk * (self.D + self.Dv + 1)
        group = self.Hq // max(self.Hkv, 1) * (self.D + self.Dv + 1)
        if work * SLACK > MOST_FLOPS or group * SLACK * 8 > 1 << 29:
            self.faults.may.add("too-much-work")

    def _judge_labels(self):
        """They matter to pictures alone; but lists of unequal length are none for anybody."""
        is_picture = self.request.answer_type == PICTURE_TYPE
        wrong = self.faults.must if is_picture else self.faults.may
        for name, tokens in (("q", self.Tq), ("k", self.Tk)):
            labels = self.options.get("labels", {}).get(name)
            if labels is None:
                continue
            lists = labels if labels and isinstance(labels[0], list) else [labels]
            if len({len(one) for one in lists}) > 1:
                self.faults.add("bad-shape")
            if len(lists[0]) != tokens or len(lists) not in (1, self.B):
                wrong.add("bad-shape")

    def _judge_picture(self):
        selection = self.options.get("weights", {})
        selection = selection if isinstance(selection, dict) else {}
        if "top_k" in selection or {"stats", "col_sums"} & self.returns:
            self.faults.add("bad-value")
        panels = self.B * self.map[0]
        if panels > MOST_PANELS:
            self.faults.add("result-too-large")
        if "pool" in selection:
            self.faults.may.add("result-too-large")

    def _judge_arrays(self):
        """numpy has no bfloat16, and one array is all that one .npy holds."""
        returns = self.returns
        if "output" in returns and output_dtype(self.options, self.dtype) == "bfloat16":
            self.faults.add("bad-dtype")
        if self.request.answer_type == NPY_TYPE:
            selection = self.options.get("weights")
            maps = 2 if isinstance(selection, dict) and "top_k" in selection else 1
            count = sum({"weights": maps, "scores": maps, "col_sums": 2, "stats": 2}.get(name, 1)
                        for name in returns)
            if count != 1:
                self.faults.add("bad-value")

    def _judge_kernel(self):
        name = self.options.get("kernel")
        if name is None:
            return
        kernel = self.kernels.get(name)
        dtype = getattr(self, "dtype", "float32")
        precision = self.options.get("precision",
                                     "float64" if dtype == "float64" else "float32")
        score = self.options.get("score", "scaled_dot")
        score = score["type"] if isinstance(score, dict) else score
        if kernel is None or precision not in kernel["precisions"] or \
                score not in kernel["scores"]:
            self.faults.add("bad-value")
