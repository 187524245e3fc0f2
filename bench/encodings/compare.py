# SPDX-License-Identifier: Apache-2.0
"""What each encoding costs around the same arithmetic: bytes and milliseconds of one call, ours
against FastAPI with numpy and MLServer, which host the same function in the same run. One query
tensor of 1, 16 or 64 MB goes in, with few keys, and an output of the same size comes out. Times
are from the first byte sent to the last byte read, less what the service says the arithmetic took;
medians of rounds in which all take turns.

  build/venv/bin/python bench/encodings/compare.py [--attentiond build/attentiond]
      [--peers build/bench-venv] [--sizes 1,16,64] [--rounds 9]
"""
import argparse
import base64
import io
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "examples" / "python"))

import tensorfile  # noqa: E402

HEADS, KEYS, D = 8, 16, 64
GOAL = 5
LARGE = 64  # MB: fewer rounds
START_SECONDS = 60
CALL_SECONDS = 180
IDLE_SECONDS = 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Connection:
    """A connection that reads answers into memory it has already touched."""

    def __init__(self, port):
        self.port = port
        self.socket, self.used = None, 0
        self.buffer = bytearray(1 << 20)

    def open(self):
        """Anew if others had their turns for so long that the service may have closed it."""
        if time.monotonic() - self.used > IDLE_SECONDS:
            if self.socket is not None:
                self.socket.close()
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=CALL_SECONDS)

    def call(self, head, body):
        """(seconds, the answer's head as text, its body)"""
        began = time.perf_counter()
        self.socket.sendall(head)
        self.socket.sendall(body)
        filled = self.read_until(lambda have: b"\r\n\r\n" in self.buffer[:min(have, 1 << 16)], 0)
        end = self.buffer.index(b"\r\n\r\n") + 4
        text = self.buffer[:end].decode()
        length = int(re.search(r"(?im)^content-length: *(\d+)", text)[1])
        if len(self.buffer) < end + length:
            self.buffer.extend(bytes(end + length - len(self.buffer)))
        self.read_until(lambda have: have >= end + length, filled)
        self.used = time.monotonic()
        return time.perf_counter() - began, text, bytes(self.buffer[end:end + length])

    def read_until(self, is_enough, filled):
        view = memoryview(self.buffer)
        while not is_enough(filled):
            got = self.socket.recv_into(view[filled:])
            if got == 0:
                raise SystemExit("a service closed its connection")
            filled += got
        view.release()
        return filled


@dataclass
class Service:
    """A way to call a service. `encode` makes the body, `compute` finds the milliseconds of the
    arithmetic in (head, body) of the answer, `output` the tensor."""
    name: str
    family: str  # json or binary: what it is compared in
    port: int
    path: str
    media_type: str
    encode: object
    compute: object
    output: object
    headers: object = lambda body: {}
    is_ours: bool = False
    seconds: list = field(default_factory=list)
    sizes: tuple = (0, 0)
    connection: Connection = None

    def head(self, body):
        lines = {"Host": "localhost", "Content-Type": self.media_type,
                 "Content-Length": len(body), **self.headers(body)}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"POST {self.path} HTTP/1.1\r\n{text}\r\n".encode()

    def turn(self, body):
        """A call that is kept, after one that is not: it would pay for what the service before it
        does after its answer, and for caches and memory that this one has lost meanwhile."""
        self.run(body)
        self.seconds.pop()
        return self.run(body)

    def run(self, body):
        """One call; the seconds outside of the arithmetic are kept, without those of connecting."""
        self.connection.open()
        seconds, head, answer = self.connection.call(self.head(body), body)
        if " 200 " not in head.splitlines()[0]:
            raise SystemExit(f"{self.name}: {head.splitlines()[0]}: {answer[:300]!r}")
        self.sizes = len(body), len(answer)
        self.seconds.append(seconds - 1e-3 * self.compute(head, answer))
        return answer


# ---- bodies ----

def native_json(tensors):
    return json.dumps({name: array.tolist() for name, array in tensors.items()}).encode()


def native_base64(tensors):
    return json.dumps({name: {"shape": array.shape, "dtype": "float32",
                              "base64": base64.b64encode(array.tobytes()).decode()}
                       for name, array in tensors.items()}).encode()


def npz(tensors):
    body = io.BytesIO()
    np.savez(body, **tensors)
    return body.getvalue()


def oip_input(name, array, **more):
    return {"name": name, "shape": array.shape, "datatype": "FP32", **more}


def oip_json(tensors):
    return json.dumps({"inputs": [oip_input(name, array, data=array.ravel().tolist())
                                  for name, array in tensors.items()]}).encode()


def oip_binary_header(tensors):
    return json.dumps({"inputs": [
        oip_input(name, array, parameters={"binary_data_size": array.nbytes})
        for name, array in tensors.items()], "parameters": {"binary_data_output": True}}).encode()


def oip_binary(tensors):
    return oip_binary_header(tensors) + b"".join(x.tobytes() for x in tensors.values())


# ---- answers ----

def server_timing(head, _):
    return float(re.search(r"compute;dur=([0-9.]+)", head)[1])


def compute_header(head, _):
    return float(re.search(r"(?i)x-compute-ms: *([0-9.]+)", head)[1])


def mlserver_parameter(_, body):
    return json.loads(body)["parameters"]["compute_ms"]


def from_json(head, body):
    return np.array(json.loads(body)["output"], np.float32)


def from_base64(head, body):
    tensor = json.loads(body)["output"]
    return np.frombuffer(base64.b64decode(tensor["base64"]), np.float32).reshape(tensor["shape"])


def from_npz(head, body):
    return np.load(io.BytesIO(body))["output"]


def from_safetensors(head, body):
    return tensorfile.loads(body)[0]["output"]


def from_oip(head, body):
    tensor = json.loads(body)["outputs"][0]
    return np.array(tensor["data"], np.float32).reshape(tensor["shape"])


def from_oip_binary(head, body):
    length = int(re.search(r"(?i)inference-header-content-length: *(\d+)", head)[1])
    shape = json.loads(body[:length])["outputs"][0]["shape"]
    return np.frombuffer(body[length:], np.float32).reshape(shape)


# ---- services ----

@contextmanager
def started(command, port, path, **more):
    """The process, once it answers at `path`."""
    log = tempfile.TemporaryFile()
    process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, **more)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(port, path):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise SystemExit(f"{command[0]} did not start:\n{log.read().decode()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def answers(port, path):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as probe:
            probe.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return b" 200 " in probe.recv(64)
    except OSError:
        return False


def ours(stack, binary):
    port = free_port()
    stack.enter_context(started([binary, "--listen", f"127.0.0.1:{port}", "--json-max-body", "1G"],
                                port, "/readyz"))
    infer = "/v2/models/attention/infer"

    def service(name, family, path, media_type, encode, output, **more):
        return Service(f"ours, {name}", family, port, path, media_type, encode, server_timing,
                       output, is_ours=True, **more)

    return [
        service("JSON", "json", "/v1/attention", "application/json", native_json, from_json),
        service("JSON with base64", "json", "/v1/attention", "application/json", native_base64,
                from_base64),
        service("safetensors", "binary", "/v1/attention", "application/vnd.safetensors",
                tensorfile.dumps, from_safetensors),
        service("npz", "binary", "/v1/attention", "application/x-npz", npz, from_npz),
        service("Open Inference JSON", "json", infer, "application/json", oip_json, from_oip),
        service("Open Inference binary", "binary", infer, "application/octet-stream", oip_binary,
                from_oip_binary, headers=binary_headers)]


def binary_headers(body):
    # The JSON ends where its last brace does; no tensor of ours has the text in its first bytes.
    return {"Inference-Header-Content-Length": body.index(b'"binary_data_output": true}}') + 28}


def bare(stack):
    """The transport alone. What it sends back is what came, and no tensors of this call."""
    port = free_port()
    stack.enter_context(started([sys.executable, HERE / "bare.py", port], port, "/"))
    return [Service("no service, bytes there and back", "transport", port, "/",
                    "application/vnd.safetensors", tensorfile.dumps, lambda head, body: 0.0,
                    lambda head, body: None)]


def fastapi(stack, venv):
    port = free_port()
    stack.enter_context(started([venv / "bin/python", HERE / "peer_fastapi.py", port], port,
                                "/ready"))
    rows = (("JSON (orjson)", "json", "/json", "application/json", native_json, from_json),
            ("npz", "binary", "/npz", "application/x-npz", npz, from_npz),
            ("safetensors", "binary", "/safetensors", "application/vnd.safetensors",
             tensorfile.dumps, from_safetensors))
    return [Service(f"FastAPI, {name}", family, port, path, media_type, encode, compute_header,
                    output) for name, family, path, media_type, encode, output in rows]


def mlserver(stack, venv):
    port, grpc, metrics = free_port(), free_port(), free_port()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (folder / "settings.json").write_text(json.dumps({
        "host": "127.0.0.1", "http_port": port, "grpc_port": grpc, "metrics_port": metrics,
        "parallel_workers": 0, "debug": False}))
    (folder / "model-settings.json").write_text(json.dumps({
        "name": "attention", "implementation": "peer_mlserver.AttentionModel"}))
    stack.enter_context(started([venv / "bin/mlserver", "start", folder], port,
                                "/v2/health/ready", cwd=folder,
                                env={**os.environ, "PYTHONPATH": str(HERE)}))
    return [Service("MLServer, Open Inference JSON", "json", port, "/v2/models/attention/infer",
                    "application/json", oip_json, mlserver_parameter, from_oip)]


# ---- the run ----

def tensors_of(megabytes):
    queries = megabytes * 2**20 // (HEADS * D * 4)
    random = np.random.default_rng(4)
    return {name: random.uniform(-1, 1, (HEADS, T, D)).astype(np.float32)
            for name, T in (("q", queries), ("k", KEYS), ("v", KEYS))}


def measure(services, megabytes, rounds):
    tensors = tensors_of(megabytes)
    bodies = {}
    for service in services:
        service.seconds, service.connection = [], Connection(service.port)
        if service.encode not in bodies:
            bodies[service.encode] = service.encode(tensors)
    outputs = []
    for number in range(rounds + 1):
        first = number % len(services) if outputs else 0  # whom the one before disturbs
        for service in services[first:] + services[:first]:
            answer = service.turn(bodies[service.encode])
            if number == 0:  # it warms up, and shows that all compute the same
                outputs.append(service.output("", answer) if service.output is not from_oip_binary
                               else None)
                service.seconds.clear()
    for service, output in zip(services, outputs):
        if output is not None and not np.allclose(output, outputs[0], atol=1e-5):
            raise SystemExit(f"{service.name} computes something else than {services[0].name}")


def report(services, megabytes):
    """Lines as bench/figure.c prints them. Ours are held against the quickest peer of a family."""
    medians = {service.name: statistics.median(service.seconds) for service in services}
    for service in services:
        ms = 1e3 * medians[service.name]
        up, down = (size / 1e6 for size in service.sizes)
        sizes = f"{up:.2f} MB up, {down:.2f} MB down"
        rounds = f"{len(service.seconds)} rounds, 0 discarded"
        peers = [peer for peer in services if not peer.is_ours and peer.family == service.family]
        if not service.is_ours or not peers:
            print(f"{megabytes} MB, {service.name}: {ms:.3f} ms, {rounds}; {sizes}", flush=True)
            continue
        quickest = min(peers, key=lambda peer: medians[peer.name])
        ratio = medians[quickest.name] / medians[service.name]
        print(f"{megabytes} MB, {service.name}: {ratio:.3f} times as fast as the quickest peer "
              f"(goal at least {GOAL}), {rounds}; {ms:.2f} ms, {sizes}; the peer is "
              f"{quickest.name}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--attentiond", default=ROOT / "build" / "attentiond")
    parser.add_argument("--peers", type=Path, default=ROOT / "build" / "bench-venv")
    parser.add_argument("--sizes", default="1,16,64")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with ExitStack() as stack:
        services = ours(stack, given.attentiond) + bare(stack)
        if (given.peers / "bin" / "mlserver").exists():
            services += fastapi(stack, given.peers) + mlserver(stack, given.peers)
        else:
            print(f"no peers in {given.peers}: `make bench` installs them")
        print(f"{HEADS} heads, {KEYS} keys, D={D}, float32", flush=True)
        for megabytes in map(int, given.sizes.split(",")):
            measure(services, megabytes, given.rounds if megabytes < LARGE else 3)
            report(services, megabytes)


if __name__ == "__main__":
    main()
