# SPDX-License-Identifier: Apache-2.0
"""The checks are checked: each must find the fault it is for, and nothing in clean text."""
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
