# SPDX-License-Identifier: Apache-2.0
"""What the documents say, held against the daemon: problem types, metrics, words of the answer, the
README's commands as they stand, and the picture."""
import json
import re
import subprocess
import sys

import pytest
import yaml
from support import tables
from support.daemon import BINARY, environment, free_port

ROOT = tables.ROOT
README = (ROOT / "README.md").read_text()
SAMPLE = ROOT / "examples" / "data"


def table_rows(path, columns):
    """The cells of each row of `columns` cells whose first is a name in backticks."""
    for line in (ROOT / path).read_text().splitlines():
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if line.startswith("| `") and len(cells) == columns:
            yield [re.sub(r"^`|`$", "", cells[0]), *cells[1:]]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.S | re.M)


def run(command, port, **more):
    """A shell command of the README, sent to this daemon."""
    text = re.sub(r"(localhost|127\.0\.0\.1):8080", f"127.0.0.1:{port}", command)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=ROOT, timeout=60,
                          capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fenced(path, language):
    """The page's one block in this language."""
    block, = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / path).read_text(), flags=re.S | re.M)
    return block


def test_the_unit_starts_the_daemon_and_lets_it_drain():
    unit = (ROOT / "docker" / "systemd" / "attentiond.service.in").read_text()
    command = re.search(r"^ExecStart=(.*)$", unit, flags=re.M).group(1)
    words = command.replace("@bindir@/attentiond", BINARY).replace(
        "@sysconfdir@/attentiond/", f"{ROOT}/config/").split()
    told = subprocess.run([*words, "--check-config"], capture_output=True, text=True, check=True,
                          env=environment()).stdout
    seconds = {name: int(re.search(rf"^{name} = (\d+)s?  ", told, flags=re.M).group(1))
               for name in ("lame_duck", "drain_timeout")}
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", unit, flags=re.M).group(1)) > sum(
        seconds.values())


def test_prometheus_can_read_the_job_and_the_queries(tmp_path):
    (tmp_path / "job.yml").write_text(fenced("docs/operations.md", "yaml"))
    queries = re.findall(r"^\| [^|`]+\?[^|`]* \| `(.+)` \|$",
                         (ROOT / "docs" / "operations.md").read_text(), flags=re.M)
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "a", "rules": rules}]}))
    assert len(queries) == 8
    for kind in ("config", "rules"):
        file = tmp_path / {"config": "job.yml", "rules": "rules.yml"}[kind]
        done = subprocess.run(["promtool", "check", kind, file], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_form_of_a_tensor_is_served_and_comes_back(client):
    table = (ROOT / "docs" / "semantics.md").read_text().split("| a tensor in JSON | |")[1]
    forms = [json.loads(cell) for cell in re.findall(r"^\| `([\[{].*?)` \|", table, flags=re.M)[:3]]
    for form, encoding in zip(forms, ("nested", "flat", "base64"), strict=True):
        body = json.dumps({"q": form, "k": form, "v": form, "encoding": encoding}).encode()
        answer = client.send("POST", "/v1/attention", body, {"Content-Type": "application/json"})
        assert answer.json["output"] == form


def test_the_merge_of_the_page_gives_the_readmes_output(daemon):
    program = fenced("docs/semantics.md", "python")
    printed = run(f"{sys.executable} - <<'END'\n{program}END\n", daemon.port)
    assert printed.startswith("{'output': [[16.604") and ", 26.604" in printed


def test_every_form_of_weights_is_served(client):
    forms = re.findall(r"^\| `(\{.*?\})` \| ", (ROOT / "docs" / "semantics.md").read_text().split(
        '| `"weights":` | gives |')[1].split("\n\n")[0], flags=re.M)
    shapes = {}
    for form in forms:
        rows = [[[0.0] * 2] * 64] * 6
        answer = client.attention(rows, rows, rows, {"weights": json.loads(form)}, wire="nested")
        assert answer.status == 200, answer.body
        shapes |= {form: {name: x.shape for name, x in answer.tensors.items() if name != "output"}}
    assert [list(shape.values())[0] for shape in shapes.values()] == [
        (2, 16, 16), (6, 64, 64), (6, 64, 64), (6, 64, 5), (1, 64, 64)]


def test_the_page_of_examples_has_the_commands_that_their_first_lines_have():
    table = (ROOT / "examples" / "README.md").read_text().split("| run it |")[1]
    rows = re.findall(r"^\| \[.*?\]\((.*?)\) \|.*\| (.*) \|$", table, flags=re.M)
    assert len(rows) == 8
    for source, how in rows:
        first_lines = (ROOT / "examples" / source).read_text()[:800]
        for command in re.findall(r"`(.*?)`", how):
            assert command in first_lines, source


def test_the_map_of_the_page_of_examples(daemon):
    command = fenced("examples/README.md", "sh").replace(
        "attend.sh", f"attend.sh http://127.0.0.1:{daemon.port}")
    assert "animal 0.68" in run(command, daemon.port)


def test_every_problem_type_is_explained_once():
    documented = [(row[0], int(row[1])) for row in table_rows("docs/errors.md", 5)]
    assert sorted(documented) == sorted((name, status) for name, (status, _) in
                                        tables.problems().items())


def test_every_metric_is_explained(client):
    documented = {row[0]: (row[1], row[3]) for row in table_rows("docs/operations.md", 4)
                  if row[1] in ("counter", "gauge", "histogram")}
    assert documented == tables.metrics()
    text = client.get("/metrics").body.decode()
    live = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, flags=re.M))
    assert live == {name: kind for name, (kind, _) in documented.items()}


def test_every_label_of_a_metric_is_explained(client):
    client.attention([[1.0]], [[1.0]], [[2.0]], wire="nested")
    documented = {row[0]: set(re.findall(r"`(\w+)`", row[2]))
                  for row in table_rows("docs/operations.md", 4)}
    text = client.get("/metrics").body.decode()
    seen = {}
    for name, labels in re.findall(r"^(\w+)(?:{(.*)})? \S+$", text, flags=re.M):
        family = name if name in documented else re.sub(r"_(bucket|sum|count)$", "", name)
        seen.setdefault(family, set()).update(re.findall(r'(\w+)="', labels))
    assert {family: labels - {"le"} for family, labels in seen.items()} == {
        family: documented[family] for family in seen}
    assert len(seen) > 15


def test_every_word_of_an_answer_is_in_the_glossary():
    schemas = yaml.safe_load((ROOT / "openapi.yaml").read_text())["components"]["schemas"]
    words = {word for name in ("Meta", "AttentionResult", "Stats")
             for word in schemas[name]["properties"]}
    page = (ROOT / "docs" / "semantics.md").read_text().split("## Glossary")[1]
    explained = {name for line in page.splitlines() if line.startswith("| `")
                 for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    assert words - {"id", "meta", "stats"} == explained


def test_the_picture_is_the_daemons_answer(client):
    """In float64, so that no weight lies on another side of a shade's border."""
    answer = client.send("POST", "/v1/attention?precision=float64",
                         (SAMPLE / "sentence.safetensors").read_bytes(),
                         {"Content-Type": "application/vnd.safetensors",
                          "Accept": "application/json"})
    drawn = subprocess.run([sys.executable, "examples/python/draw_map.py",
                            str(SAMPLE / "sentence.tokens.json")], input=answer.body, cwd=ROOT,
                           capture_output=True, check=True)
    assert drawn.stdout == (ROOT / "docs" / "images" / "attention-map.svg").read_bytes()


def curls():
    return [block for block in blocks("sh") if "curl" in block]


# What each pasted command prints, in the README's order.
PRINTED = ["animal 0.68", "200 image/png", "200 image/png", '"weights":[[0.66976', "animal 0.70",
           '"weights":[[1,0]]', '512 535.53 1.0 0.58 0.34', "trophy 0.56",
           "200 application/vnd.safetensors",
           '"mask":"causal(bottom_right) & padding(kv 3,2)"', "\nattention_workers "]


@pytest.mark.parametrize("command, sign", zip(curls(), PRINTED, strict=True))
def test_a_pasted_command_works(command, sign, daemon):
    printed = run(command, daemon.port)
    assert sign in printed
    assert printed.endswith("\n")  # or the terminal's prompt stands behind the answer


@pytest.mark.parametrize("command", curls())
def test_a_pasted_command_says_that_no_daemon_is_there(command):
    text = re.sub(r"(localhost|127\.0\.0\.1):8080", f"127.0.0.1:{free_port()}", command)
    done = subprocess.run(["bash", "-c", text], cwd=ROOT, timeout=60, capture_output=True,
                          text=True, check=False)
    assert "Failed to connect" in done.stderr, command


def test_the_scaling_table_is_the_answer(client):
    answer = client.send("POST", "/v1/experiments/scaling",
                         b'{"d_k": [4, 64, 512], "keys": 3, "seed": 3}').json
    table = README.split("| d_k |")[1].split("\n\n")[0].splitlines()[2:]
    assert table == [
        f"| {size['d_k']} | {size['variance']:.2f} | "
        + " | ".join(f"{row['max']:.2f}" for row in size["rows"]) + " |"
        for size in answer["results"]]


def test_every_kernel_is_named(client):
    """The README and the table of kernels say which there are."""
    pages = [README, (ROOT / "docs" / "architecture.md").read_text()]
    for kernel in json.loads(client.get("/v1").body)["kernels"]:
        for page in pages:
            assert f"`{kernel['name']}`" in page, kernel["name"]


def the_call(source):
    return re.search(r"^call = .*?\}$", source, flags=re.S | re.M).group()


def test_the_python_snippet_is_the_examples_call_and_works(daemon):
    snippet, _ = blocks("python")
    source = (ROOT / "examples" / "python" / "quickstart.py").read_text()
    assert the_call(snippet) == the_call(source)
    printed = run(f"{sys.executable} - <<'END'\n{snippet}END\n", daemon.port)
    assert "'output': [[16.604" in printed


def test_the_snippet_with_numpy_works(daemon):
    _, snippet = blocks("python")
    printed = run(f"{sys.executable} - <<'END'\n{snippet}END\n", daemon.port)
    assert printed.startswith('(8, 128, 64) {"id":') and '"mask":"causal"' in printed


def test_every_file_that_a_document_names_exists():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for name in re.findall(r"`((?:core|server|config|tests|bench|examples|docs)/[\w./*-]+)`",
                               page.read_text()):
            placeholder = "NAME" in name
            assert placeholder or list(ROOT.glob(name.rstrip("/"))), f"{page.name} names {name}"


def test_help_says_how_long_each_benchmark_takes():
    told = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout
    programs = [path.stem for path in ROOT.glob("bench/*.c") if "\nint main(" in path.read_text()]
    assert programs
    for name in ["", *(f"BENCH={name} " for name in programs)]:
        assert re.search(rf"^  bench {name}.*(seconds|minutes?)", told, flags=re.M), name
