# SPDX-License-Identifier: Apache-2.0
"""Another mask for a capture: the call that hooks.py keeps, what is drawn for it, and what can be
wrong with that beyond its schema."""
from attention import AttentionJudge
from calls import Maker, as_integers
from hypothesis import strategies as st

PATH = "/v1/captures/{id}/remask"
KEPT = {"q": [[[1], [2]], [[3], [1]]], "k": [[[1], [0]]], "v": [[[1], [2]]], "mask": "causal",
        "capture": {"name": "contract"}}
SIZES = {"B": 1, "Hq": 2, "Hkv": 1, "Tq": 2, "Tk": 2}


class RemaskJudge(AttentionJudge):
    """As many queries as keys: where they stand is known."""

    def judge(self):
        vars(self).update(SIZES)
        self._read_named()
        self._judge_mask()
        self._judge_lists()


class RemaskMaker(Maker):
    def __init__(self, draw):
        super().__init__(draw)
        vars(self).update(SIZES)

    def _named(self, array):
        """No tensors stand beside the options."""
        return as_integers(array, self.pick("nested", "flat"))

    def make(self):
        self._mask()
        if self.draw(st.booleans()):
            self.options["q_offset"] = self._lengths(6)
        if self.draw(st.booleans()):
            self.options["alibi"] = self.pick(True, False, self._per_head())
        if self.draw(st.booleans()):
            self.options["name"] = "another"
        return self.tensors, self.options


@st.composite
def remask(draw):
    return RemaskMaker(draw).make()
