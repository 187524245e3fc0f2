# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a mask that fits its schema, and whether it places the queries."""
from faults import broadcasts

MAX_NODES, MAX_DEPTH = 256, 32


def read_mask_tensors(request, mask):
    """Reads what the leaves name or hold, wherever they stand."""
    waiting = [mask]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part[word] for word in ("all", "any", "not") if word in part)
            for name in ("keep", "q", "kv", "tensor"):
                if name in part:
                    request.tensor(part[name], "mask", "bad-mask")
            for name in ("kv_lengths", "q_lengths", "length", "tokens"):
                if name in part:
                    request.ints(part[name], "bad-mask")


class MaskJudge:
    """Collects the faults of one mask and, in `aligns`, `padding` and `positional`, what it says
    about positions."""

    def __init__(self, request, call):
        self.request, self.call, self.faults = request, call, request.faults
        self.aligns, self.padding = [], []
        self.positional = self.causal = False
        self.nodes = 0

    def judge(self, mask):
        self._visit(mask, 0, True)
        if self.nodes > MAX_NODES:
            self.faults.add("bad-mask")
        if len(set(self.aligns)) > 1:
            self.faults.add("bad-mask")

    def _visit(self, mask, depth, joined):
        self.nodes += 1
        if depth >= MAX_DEPTH - 4:  # JSON's own depth counts too
            self.faults.may.update(("bad-mask", "malformed"))
        if depth >= MAX_DEPTH:
            self.faults.add("bad-mask", "malformed")
            return
        if mask == "causal":
            mask = {"type": "causal"}
        if isinstance(mask, list):
            mask = {"all": mask}
        for word in ("all", "any", "not"):
            if word in mask:
                operands = [mask[word]] if word == "not" else mask[word]
                for operand in operands:
                    self._visit(operand, depth + 1, joined and word == "all")
                return
        kind = mask["type"]
        getattr(self, "_" + ("tensor" if kind in ("allow", "hide") else kind))(mask, joined)

    def _causal(self, mask, joined):
        self.causal = self.positional = True
        if "align" in mask:
            self.aligns.append(mask["align"])
            if not joined:
                self.faults.add("bad-mask")

    def _window(self, mask, joined):
        self.positional |= mask["left"] >= 0 or mask["right"] >= 0

    def _dilated(self, mask, joined):
        self.positional = True

    _block_causal = _dilated

    def _lengths(self, value, most):
        found = self.request.ints(value, "bad-mask")
        if found is not None and (len(found) not in (1, self.call.B) or
                                  any(not 0 <= item <= most for item in found)):
            self.faults.add("bad-mask")
            return None
        return found

    def _padding(self, mask, joined):
        if "keep" in mask:
            self._spread(mask["keep"], self.call.Tk)
            return
        keys = self._lengths(mask["kv_lengths"], self.call.Tk)
        queries = self._lengths(mask["q_lengths"], self.call.Tq) if "q_lengths" in mask else None
        if joined and keys:
            self.padding.append((keys, queries))

    def _prefix(self, mask, joined):
        self._lengths(mask["length"], self.call.Tk)

    def _global(self, mask, joined):
        tokens = self.request.ints(mask["tokens"], "bad-mask")
        if tokens is None:
            return
        self.positional |= len(tokens) > 0
        if any(not 0 <= token < self.call.Tk for token in tokens):
            self.faults.add("bad-mask")

    def _spread(self, value, length):
        """A tensor of integers [length] or [B,length]."""
        found = self.request.tensor(value, "mask", "bad-mask")
        if found is None:
            return None
        if found.is_float or found.rank not in (1, 2) or found.shape[-1] != length or \
                (found.rank == 2 and found.shape[0] not in (1, self.call.B)):
            self.faults.add("bad-mask")
            return None
        return found

    def _segments(self, mask, joined):
        q = self._spread(mask["q"], self.call.Tq)
        if "kv" not in mask:
            if self.call.Tq != self.call.Tk:
                self.faults.add("bad-mask")
            return
        kv = self._spread(mask["kv"], self.call.Tk)
        if q and kv and q.dtype != kv.dtype and \
                any(item >= 2 ** 63 for item in [*q.data, *kv.data]):
            self.faults.add("bad-mask")

    def _tensor(self, mask, joined):
        found, call = self.request.tensor(mask["tensor"], "mask", "bad-mask"), self.call
        if found is None:
            return
        if found.is_float or not broadcasts(found.shape, [call.B, call.Hq, call.Tq, call.Tk]):
            self.faults.add("bad-mask")
        elif found.shape == [call.B, call.Tk] and call.B != call.Tq:
            self.faults.add("bad-mask")  # a padding mask under another name
        elif found.dtype != "bool" and any(item not in (0, 1) for item in found.data):
            self.faults.add("bad-mask")
