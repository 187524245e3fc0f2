# SPDX-License-Identifier: Apache-2.0
"""Requests about captures, and calls that are kept. A capture's id is the daemon's own, so that a
request has the capture's name in its place, of the same length, until it is sent. What was refused
has left the captures as they were; what was answered was kept as a whole, or says why not."""
import dataclasses
import io
import json

import numpy as np
from support import raw
from support.client import JSON_TYPE, NPY_TYPE, NPZ_TYPE, SAFETENSORS_TYPE, pack, pack_operands
from support.sessions import SHAPE, rows

from torture.exchanges import get, operands, options_of_all_kinds, post

ALL = "/v1/captures"
DROP = raw.get(ALL, method="DELETE")
ID_LENGTH = 32
LONG = 2100  # tokens: more than an overview has bins, so that one is made and kept
FULL_BYTES = "64KiB"  # room for two of the calls `medium()` in float16


def at(name):
    """What stands for the id of the capture of this name."""
    return name.rjust(ID_LENGTH, "~")


def path_of(name, rest=""):
    return f"{ALL}/{at(name)}{rest}"


def kept(called, qkv, wire="nested", name="", accept=JSON_TYPE, **options):
    """A call that is kept as `called`."""
    more, tensors = options_of_all_kinds() if qkv[0].shape[2] == 3 else ({}, {})
    body, kind = pack(*qkv, {**more, **options, "capture": {"name": called, "run": "r"}}, tensors,
                      wire)
    return post(name, body, f"Accept: {accept}", kind=kind)


def small(called):
    return kept(called, operands()).sent


def medium(called, **options):
    """Too large for the I/O thread to keep on the way."""
    return kept(called, operands(Tq=100, Tk=100, D=32), "safetensors", **options)


def long(called):
    return kept(called, operands(Tq=LONG, Tk=LONG, D=2, H=1), "safetensors",
                mask=[{"type": "window", "left": 8, "right": 8}], **{"return": ["lse"]}).sent


def asking(template, name, called="one", **more):
    """A GET about a capture."""
    return get(path_of(called, template), name=f"captures: {name}", **more)


def maps():
    for form in ("f16", "npy", "json", "png"):
        yield asking(f"/map?format={form}", f"a map as {form}")
    yield asking("/map?head=mean&stage=masked&rows=1:3&width=2&op=mass&format=json", "a mean")
    yield asking("/map?head=max&preview=1&height=2", "a preview")
    yield asking("/map?head=9", "a head that there is not", status=422)
    yield asking("/map?format=gif", "an unknown format", status=422)


def looks():
    yield get(ALL, name="captures: the list")
    yield get(f"{ALL}?since=1", name="captures: the list since")
    yield get(ALL, "If-None-Match: *", name="captures: the list is known", status=304)
    yield asking("", "look")
    yield asking("/cell?row=1&col=2", "a cell")
    yield asking("/cell?row=1&col=200", "a cell that there is not", status=422)
    yield asking("/stats", "statistics")
    yield dataclasses.replace(asking("/stats", "statistics that were kept"),
                              before=(asking("/stats", "").sent,))
    yield asking("", "no such", called="nobody", status=404)
    yield from maps()


def comparisons():
    weights = np.full((1, 2, 3, 5), 0.2, np.float32)
    np.save(npy := io.BytesIO(), weights)
    sent = {"npy": (npy.getvalue(), NPY_TYPE), "JSON": (with_body("two"), JSON_TYPE),
            "nobody": (with_body("nobody"), JSON_TYPE)}
    for wire in ("safetensors", "npz"):
        sent[wire] = pack_operands({"weights": weights}, {"rtol": 0.5}, None, wire)
    for name, (body, kind) in sent.items():
        yield post(f"captures: compare with {name}", body, path=path_of("one", "/compare"),
                   kind=kind, status=422 if name == "nobody" else 200)


def with_body(called):
    return json.dumps({"with": at(called)}).encode()


def changes():
    mask = {"mask": ["causal", {"type": "window", "left": 1, "right": 0}], "q_offset": 2}
    for name, asked, status in (("a mask", {**mask, "name": "made"}, 201),
                                ("a mask without a name", mask, 201), ("no mask", {}, 422)):
        yield post(f"captures: {name}", json.dumps(asked).encode(),
                   path=path_of("one", "/remask"), status=status)
    yield asking("/pin", "pin", method="PUT", status=204)
    yield dataclasses.replace(asking("/pin", "let go", method="DELETE", status=204),
                              before=(raw.get(path_of("one", "/pin"), method="PUT"),))
    yield asking("", "drop one", method="DELETE", status=204)
    yield get(ALL, name="captures: drop all", method="DELETE", status=204)


def calls():
    for wire in ("nested", "safetensors", "npz"):
        yield kept("made", operands(), wire, f"captures: a kept call in {wire}")
    for accept in (SAFETENSORS_TYPE, NPZ_TYPE):
        yield kept("made", operands(), accept=accept,
                   name=f"captures: a kept call to {accept.rpartition('/')[2]}")
    yield kept("made", operands(Tq=128, Tk=300, D=64), "safetensors",
               "captures: kept by workers", weights=True)
    body, kind = pack(*operands(), {"capture": {"name": "made", "q_grid": [3, 3]}}, {}, "nested")
    yield post("captures: a grid that is too large", body, kind=kind, status=422)


def long_maps():
    """Of a capture whose overview is made and kept."""
    whole = asking("/map", "a new overview", called="long")
    preview = asking("/map?preview=1&rows=0:1050&width=64", "a preview by an overview",
                     called="long")
    new_mask = post("captures: a mask by workers", b'{"mask": "causal", "name": "made"}',
                    path=path_of("long", "/remask"), status=201)
    begun = (DROP, long("long"))
    for row, more in ((whole, ()), (preview, (whole.sent,)), (new_mask, ()),
                      (dataclasses.replace(whole, name="captures: a part of an overview"),
                       (whole.sent,))):
        yield dataclasses.replace(row, before=(*begun, *more))


def steps():
    """Steps of a session that are kept."""
    rng = np.random.default_rng(15)
    first, new = rows(rng, 3), rows(rng, 2)
    path = "/v1/sessions/one"
    body, kind = pack_operands(first, {}, None, "safetensors")
    gone = raw.get(path, method="DELETE")
    begun = (gone, post("", json.dumps({**SHAPE, "id": "one"}).encode(), path="/v1/sessions").sent,
             post("", body, path=f"{path}/attention", kind=kind).sent)
    for wire in ("nested", "safetensors", "npz"):
        body, kind = pack_operands(new, {"return": ["output", "weights"],
                                         "capture": {"name": "made"}}, None, wire)
        yield post(f"captures: a kept step in {wire}", body, path=f"{path}/attention", kind=kind,
                   before=begun, state=(raw.get(f"{path}/kv"),), after=(gone,))


def finish(row, begun, looked):
    return dataclasses.replace(
        row, before=(*begun, *row.before), after=(*row.after, DROP), has_names=True,
        state=(*row.state, raw.get(ALL), *looked))


def exchanges():
    begun = (DROP, small("one"), small("two"))
    looked = [raw.get(path_of("made")), raw.get(path_of("made", "/map?format=npy")),
              raw.get(path_of("one", "/map?format=npy"))]
    for row in (*looks(), *comparisons(), *changes(), *calls(), *steps()):
        yield finish(row, begun, looked)
    for row in long_maps():
        yield finish(row, (), ())


def in_little_room():
    """For a daemon that has room for two calls, as float16."""
    begun, one = (DROP, medium("one").sent, medium("two").sent), path_of("one")
    pinned = tuple(raw.get(path_of(name, "/pin"), method="PUT") for name in ("one", "two"))
    looked = [raw.get(path_of("made", "/map?format=npy"))]
    found = [
        medium("made", name="captures: a call that another goes for"),
        dataclasses.replace(medium("made", name="captures: a call without room"), before=pinned),
        kept("made", operands(Tq=300, Tk=300, D=64), "safetensors",
             "captures: a call that is too large"),
        get(f"{one}/cell?row=1&col=2", name="captures: a cell in float16"),
        get(f"{one}/map?head=1&width=9", name="captures: a map in float16"),
        post("captures: compare in float16", with_body("two"), path=f"{one}/compare"),
        post("captures: a mask that another goes for", b'{"mask": "causal", "name": "made"}',
             path=f"{one}/remask", status=201),
    ]
    for row in found:
        yield finish(row, begun, looked)
