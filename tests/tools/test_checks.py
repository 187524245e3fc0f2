# SPDX-License-Identifier: Apache-2.0
"""The checks are checked: each must find the fault it is for, and nothing in clean text."""
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import check_style  # noqa: E402

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"


def faults(name, text):
    return [what for _, what in check_style.file_faults(Path(name), text)]


def test_clean_text_has_no_fault():
    assert faults("a.c", SPDX + "int x;\n") == []


@pytest.mark.parametrize("text, word", [
    ("int x;\n", "SPDX"),
    (SPDX + "int x;", "newline"),
    (SPDX + "/* TO" + "DO: more */\n", "note to self"),
    (SPDX + "/* not " + "implemented */\n", "promise"),
    (SPDX + 'char *p = "/wo' + 'rk/main";\n', "path of one machine"),
    (SPDX + "/* see py" + "pi.org */\n", "package registry"),
    (SPDX + "\n" * check_style.FILE_LINES, "lines, at most"),
])
def test_a_fault_in_a_file_is_found(text, word):
    assert any(word in what for what in faults("a.c", text))


def test_functions_are_measured_whole():
    text = ('#define F(x) do { \\\n} while (0)\nstruct s { int a; };\nstatic int t[] = {1, 2};\n'
            'static int *\nfirst(int a,\n      int b)\n{\n    if (a) { /* } */\n'
            '        return "}";\n    }\n    return 0;\n}\n\nvoid second(void) {\n}\n')
    assert list(check_style.c_functions(text)) == [("first", 5, 9), ("second", 15, 2)]


def test_a_long_function_and_a_bad_spread_are_found():
    lengths = {}
    text = "void f(void)\n{\n" + "    g();\n" * check_style.FUNCTION_LINES + "}\n"
    assert list(check_style.function_faults(Path("a.c"), text, lengths))
    assert len(list(check_style.spread_faults(lengths))) == 2


@pytest.mark.parametrize("link, broken", [
    ("[a](README.md)", False), ("[a](#a-heading)", False), ("[a](other.md#part)", False),
    ("[a](https://example.org/x)", False), ("`[a](gone.md)`", False),
    ("[a](gone.md)", True), ("[a](#no-heading)", True), ("[a](other.md#none)", True),
])
def test_links(tmp_path, link, broken):
    (tmp_path / "README.md").write_text("")
    (tmp_path / "other.md").write_text("## Part\n")
    page = tmp_path / "page.md"
    page.write_text(f"# A heading\n{link}\n")
    assert bool(list(check_style.link_faults(page, page.read_text()))) == broken


@pytest.mark.parametrize("text, lines", [
    ("| a | b |\n| --- | --- |\n| 1 | 2 |\n", []),
    ("| a | b |\n| --- | --- |\n| 1 |\n", [3]),
    ("| a | b |\n| --- | --- |\n| 1 | 2 | 3 |\n", [3]),
    ("| a | b |\n| --- | --- |\n| `x \\| y` | 2 |\n", []),
    ("| a | b |\n| --- | --- |\n\n| c |\n| --- |\n| 1 |\n", []),
    ("```\n| a | b |\n| c |\n```\n", []),
])
def test_tables(text, lines):
    assert [number for number, _ in check_style.table_faults(text)] == lines


@pytest.mark.parametrize("line, is_long", [
    ("word " * 24 + "end.", True), ("word " * 20, False), ("| " + "word " * 40 + "|", False),
    ("x" * 200, False), ("[a](" + "x" * 120 + ")", False),
])
def test_long_lines(line, is_long):
    assert bool(list(check_style.width_faults(line + "\n"))) == is_long
    assert not list(check_style.width_faults(f"```\n{line}\n```\n"))


@pytest.mark.parametrize("port", ["taken", "80000", "x"])
def test_make_run_says_which_port_to_take(port):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = str(listener.getsockname()[1]) if port == "taken" else port
        done = subprocess.run([ROOT / "tools" / "port-is-free", number], capture_output=True,
                              text=True)
    assert done.returncode == 1 and "make run PORT=" in done.stderr and number in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_make_run_starts_where_a_port_is_free():
    assert subprocess.run([ROOT / "tools" / "port-is-free", "0"]).returncode == 0


LAYERING = ROOT / "tests" / "check_layering.sh"
BREACHES = {
    "core/a.c": "#include <jansson.h>\n",
    "core/kernels/a.c": '#include "server/a.h"\n',
    "server/a.c": "#include <microhttpd.h>\n",
    "server/codecs/a.c": '#include "core/plan.h"\n',
    "server/b.c": '#include "config/config.h"\n',
    "core/kernels/b.c": "#include <cblas.h>\n",
    "server/c.c": "#include <zlib.h>\n",
    "server/codecs/b.c": "#include <zstd.h>\n",
    "server/codecs/codec_png.c": "#include <png.h>\n",
    "server/codecs/codec_png_draw.c": "#include <ft2build.h>\n",
}


def layering(folder, sources, core="int attn_a(void);\nint attn_a(void) { return 0; }\n"):
    """What the check says about a project of these files and this content of the archive."""
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "archive.c").write_text(core)
    subprocess.run("git init -q . && git add core server && cc -c archive.c -o a.o && "
                   "ar rcs a.a a.o", shell=True, cwd=folder, check=True)
    return subprocess.run([LAYERING, "a.a"], cwd=folder, capture_output=True, text=True)


CLEAN = {"core/c.c": '#include "core/c.h"\n', "server/http/a.c": "#include <microhttpd.h>\n"}


def test_right_layers_pass(tmp_path):
    said = layering(tmp_path, CLEAN)
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_of_layers_is_found(tmp_path, name):
    said = layering(tmp_path, {**CLEAN, name: BREACHES[name]})
    assert said.returncode == 1 and f"{name}:1" in said.stderr


@pytest.mark.parametrize("core, word", [
    ("void json_del(void);\nvoid attn_a(void);\nvoid attn_a(void) { json_del(); }\n", "json_del"),
    ("int attn_a;\n", "attn_a"),
    ("int attn_a = 3;\n", "attn_a"),
])
def test_a_breach_in_the_archive_is_found(tmp_path, core, word):
    said = layering(tmp_path, CLEAN, core)
    assert said.returncode == 1 and word in said.stderr


def parts(tmp_path, rows):
    table = tmp_path / "table"
    table.write_text(rows)
    return subprocess.run([ROOT / "tools" / "run-parts", table, "a", "b"], capture_output=True,
                          text=True)


@pytest.mark.parametrize("rows, code, last", [
    ("# x\na|one|5|true\nb | two | 5 | echo x | grep x\nc|n|5|false\n", 0, "2 passed, 0 failed"),
    ("a|one|5|false\na|two|5|true\n", 1, "1 passed, 1 failed"),
    ("a|slow|1|sleep 9\n", 1, "0 passed, 1 failed"),
    ("c|other|5|true\n", 1, ""),
])
def test_run_parts(tmp_path, rows, code, last):
    said = parts(tmp_path, rows)
    assert said.returncode == code
    assert said.stdout.endswith(last + "\n") or last == ""


def test_run_parts_says_the_reason_of_a_failure_again_at_the_end(tmp_path):
    said = parts(tmp_path, "a|good|5|echo a.c:1:F: not this\n"
                           "a|bad|5|echo a.c:2:F: this; seq 99; exit 3\n"
                           "a|daemon left|5|sleep 3 & echo started\n")
    _, _, end = said.stdout.partition("\n--- bad\n")
    assert end.startswith("a.c:2:F: this\n\npart ")
    assert "not this" not in end
    assert "(exit 3)" in end and "1 failed" in end
