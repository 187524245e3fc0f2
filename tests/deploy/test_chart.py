# SPDX-License-Identifier: Apache-2.0
"""docker/helm and docker/kserve, without a cluster: Kubernetes' and KServe's schemas take what they
make, its parts agree with each other and with the image, the daemon takes its options, and the call
that the notes propose is answered."""
import re
import subprocess

import kubernetes_validate
import pytest
import yaml
from deploy import containers, helm
from support import certificates
from support.daemon import BINARY, ROOT, Daemon, environment

KSERVE = sorted((ROOT / "docker" / "kserve").glob("*.yaml"))
CLIENTS = ROOT / "build" / "clients-venv" / "bin" / "python"
VALUES = {
    "default": {},
    "insecure": {"insecure": True, "podDisruptionBudget": {"enabled": False},
                 "networkPolicy": {"enabled": False},
                 "options": {"captures": True, "max_flops": "1e15", "queue_limit": 512}},
    "all": {
        "replicas": 3, "image": {"repository": "registry.example/attentiond", "tag": "",
                                 "digest": "sha256:" + "0" * 64, "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}], "keys": {"secret": "our-keys", "file": "clients"},
        "tls": {"secret": "our-certificate", "clientCa": "ca.crt"}, "address": "[::]",
        "options": {"log": "errors", "captures": False, "queue_work": "5s"},
        "drain": {"preStop": 0, "lameDuck": 10, "timeout": 60},
        "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
        "autoscaling": {"enabled": True, "busyShare": 0.65, "queueDepth": 4},
        "podDisruptionBudget": {"maxUnavailable": "25%"},
        "networkPolicy": {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}],
                          "opsFrom": [{"namespaceSelector": {}}],
                          "egress": [{"ports": [{"port": 4318}]}]},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "serviceAccountName": "attention", "podAnnotations": {"a": "b"}, "podLabels": {"team": "c"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"}, "priorityClassName": "high",
        "tolerations": [{"key": "compute", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
}
OWN_OPTIONS = {"listen", "ops_listen", "lame_duck", "drain_timeout", "insecure", "key_file",
               "tls_certificate", "tls_key", "tls_client_ca"}


@pytest.fixture(scope="module", autouse=True)
def _helm():
    helm.fetch()


@pytest.fixture(params=VALUES)
def values(request):
    return VALUES[request.param]


@pytest.fixture
def made(values, tmp_path):
    return helm.render(tmp_path, values)


def pod_of(made):
    return made["Deployment"]["spec"]["template"]["spec"]


def container_of(made):
    (container,) = pod_of(made)["containers"]
    return container


def variables(container):
    return {item["name"]: item["value"] for item in container["env"]}


def test_lint(values, tmp_path):
    file = helm.values_file(tmp_path, values)
    helm.run("lint", "--strict", "--quiet", "--values", file, helm.CHART)


def test_where_pods_may_connect(values, made):
    wanted = values.get("networkPolicy", {})
    if wanted.get("enabled", True):
        assert made["NetworkPolicy"]["spec"]["egress"] == wanted.get("egress", [])


@pytest.mark.parametrize("version", ("1.30", "1.37"))
def test_kubernetes_takes_it(made, version):
    for kind, document in made.items():
        if kind != "ServiceMonitor":
            kubernetes_validate.validate(document, version, strict=True)


def test_what_is_wrong_is_found(tmp_path):
    document = helm.render(tmp_path, {})["Deployment"]
    document["spec"]["template"]["spec"]["containers"][0]["prots"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, "1.37", strict=True)


def test_which_parts_there_are(tmp_path):
    parts = {name: set(helm.render(tmp_path, values)) for name, values in VALUES.items()}
    assert parts == {"default": {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"},
                     "insecure": {"Deployment", "Service"},
                     "all": {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy",
                             "HorizontalPodAutoscaler", "ServiceMonitor"}}


def test_all_parts_choose_the_same_pods(made):
    spec = made["Deployment"]["spec"]
    chosen = spec["selector"]["matchLabels"]
    assert set(chosen) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
    assert chosen.items() <= spec["template"]["metadata"]["labels"].items()
    assert made["Service"]["spec"]["selector"] == chosen
    for spread in pod_of(made)["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"] == chosen
    for kind, field in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector"),
                        ("ServiceMonitor", "selector")):
        if kind in made:
            assert made[kind]["spec"][field]["matchLabels"] == chosen
    for document in made.values():
        assert chosen.items() <= document["metadata"]["labels"].items()
        assert document["metadata"]["name"] == made["Deployment"]["metadata"]["name"]


def test_ports_agree(made):
    container = container_of(made)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    offered = {port["name"]: port["targetPort"] for port in made["Service"]["spec"]["ports"]}
    assert offered == {name: name for name in ports}
    options = variables(container)
    assert {text.rsplit(":", 1)[1] for text in (options["ATTENTIOND_LISTEN"],
                                                options["ATTENTIOND_OPS_LISTEN"])} == \
        {str(port) for port in ports.values()} == {"8080", "9090"}
    assert {container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} \
        == {"ops"}
    for rule, name in zip(made.get("NetworkPolicy", {}).get("spec", {}).get("ingress", []), ports):
        assert [port["port"] for port in rule["ports"]] == [ports[name]]
    if "ServiceMonitor" in made:
        (endpoint,) = made["ServiceMonitor"]["spec"]["endpoints"]
        assert endpoint["port"] == "ops" and endpoint["relabelings"] == [
            {"targetLabel": "job", "replacement": "attentiond"}]


def test_a_pod_has_no_rights(made):
    pod, container = pod_of(made), container_of(made)
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "docker" / "Dockerfile").read_text(), re.M)
    context = pod["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user[1]), int(user[2]))
    assert context["runAsNonRoot"] and context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]}}
    # Links to files that are exchanged, which a mount of a single file would not follow.
    assert all("subPath" not in mount for mount in container.get("volumeMounts", []))


def test_secrets_are_mounted_where_the_options_look(made):
    pod, options = pod_of(made), variables(container_of(made))
    places = {mount["name"]: mount["mountPath"]
              for mount in container_of(made).get("volumeMounts", [])}
    assert {volume["name"] for volume in pod.get("volumes", [])} == set(places)
    wanted = {name for name in ("KEY_FILE", "TLS_CERTIFICATE", "TLS_KEY", "TLS_CLIENT_CA")
              if f"ATTENTIOND_{name}" in options}
    for name in wanted:
        place = places["keys" if name == "KEY_FILE" else "tls"]
        assert options[f"ATTENTIOND_{name}"].rsplit("/", 1)[0] == place
    assert ("ATTENTIOND_KEY_FILE" in options) != (options.get("ATTENTIOND_INSECURE") == "on")


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    """/etc/attentiond of a pod that has its Secrets; the key to one line of its key files."""
    folder = tmp_path_factory.mktemp("mounted")
    made = subprocess.run([BINARY, "--make-key", "alice"], capture_output=True, text=True,
                          check=True).stdout
    key, line = made.splitlines()[0], re.search(r"^alice .*$", made, re.M)[0]
    for name in ("keys", "clients"):
        (folder / "keys").mkdir(exist_ok=True)
        (folder / "keys" / name).write_text(line + "\n")
    authority = certificates.Authority(folder)
    certificate, private = authority.sign("localhost")
    (folder / "tls").mkdir()
    for file, name in ((certificate, "tls.crt"), (private, "tls.key"),
                       (authority.certificate, "ca.crt")):
        file.rename(folder / "tls" / name)
    return folder, key


def in_effect(container, folder):
    """The options that the daemon has in this container, where they come from the environment."""
    given = {name: value.replace("/etc/attentiond", str(folder))
             for name, value in variables(container).items()}
    done = subprocess.run([BINARY, "--check-config"], capture_output=True, text=True, check=False,
                          env={**environment(), **given})
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^(\w+) = (.*?)  # ATTENTIOND_", done.stdout, flags=re.M))


def test_the_daemon_takes_the_options(made, values, mounted):
    taken = in_effect(container_of(made), mounted[0])
    given = values.get("options", {})
    assert set(given) <= set(taken) and len(taken) == len(container_of(made)["env"])
    assert {name: taken[name] for name, value in given.items() if isinstance(value, bool)} == \
        {name: "on" if value else "off" for name, value in given.items() if isinstance(value, bool)}


@pytest.mark.parametrize("kubernetes, waits", (("1.29.5", False), ("1.30.0", True)))
def test_there_is_time_to_drain(tmp_path, kubernetes, waits):
    for number, values in enumerate(VALUES.values()):
        made = helm.render(tmp_path, values, "--kube-version", kubernetes)
        container = container_of(made)
        drain = {"preStop": 5, **values.get("drain", {})}
        assert ("lifecycle" in container) == (waits and number != 2)
        if "lifecycle" in container:
            assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": drain["preStop"]}}}
        options = variables(container)
        seconds = [int(options[f"ATTENTIOND_{name}"].removesuffix("s"))
                   for name in ("LAME_DUCK", "DRAIN_TIMEOUT")]
        assert pod_of(made)["terminationGracePeriodSeconds"] > drain["preStop"] + sum(seconds)


def test_it_scales_by_what_the_adapter_provides(tmp_path):
    made = helm.render(tmp_path, VALUES["all"])
    adapter = yaml.safe_load((ROOT / "docker" / "helm" / "prometheus-adapter.yaml").read_text())
    provided = {rule["name"]["as"] for rule in adapter["rules"]["custom"]}
    spec = made["HorizontalPodAutoscaler"]["spec"]
    wanted = {item["pods"]["metric"]["name"]: item["pods"]["target"]["averageValue"]
              for item in spec["metrics"]}
    assert set(wanted) == provided
    assert wanted == {"attention_worker_busy_share": "650m", "attention_queue_depth": "4"}
    assert "replicas" not in made["Deployment"]["spec"]
    assert spec["scaleTargetRef"]["name"] == made["Deployment"]["metadata"]["name"]


@pytest.mark.parametrize("wrong", (
    {"options": {"queue_limt": 3}}, {"options": {"listen": ":80"}}, {"image": {"tag": "latest"}},
    {"replicas": -1}, {"replica": 2}, {"drain": {"lameDuck": "5s"}}, {"keys": {"secret": ""}},
    {"service": {"sessionAffinity": "Cookie"}}, {"options": {"max_flops": 10**15}},
    {"autoscaling": {"busyShare": 1.5}}), ids=str)
def test_wrong_values_are_refused(wrong, tmp_path):
    said = helm.render(tmp_path, wrong, check=False)
    assert isinstance(said, str) and "don't meet the specifications of the schema" in said


def test_all_options_are_known():
    rows = re.findall(r"^OPTION\((\w+),", (ROOT / "config" / "options.def").read_text(), re.M)
    schema = yaml.safe_load((helm.CHART / "values.schema.json").read_text())
    assert set(schema["properties"]["options"]["propertyNames"]["enum"]) == set(rows) - OWN_OPTIONS


def test_images_have_the_version(made, values):
    version = re.search(r"^VERSION := (.*)$", (ROOT / "Makefile").read_text(), re.M)[1]
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
    images = [container_of(made)["image"]]
    for file in KSERVE:
        images += re.findall(r"^ *image: (.*)$", file.read_text(), re.M)
    assert len(images) == 2
    for image in images:
        assert image.endswith((f"attentiond:{version}", "@sha256:" + "0" * 64))


@pytest.mark.parametrize("name", ("default", "insecure"))
def test_the_notes_lead_to_an_answer(name, mounted, tmp_path):
    folder, key = mounted
    text = helm.notes(tmp_path, VALUES[name])
    (line,) = [line.strip() for line in text.splitlines() if line.strip().startswith("curl")]
    assert ("--make-key" in text) == (name == "default")
    options = ["--key-file", folder / "keys" / "keys"] if name == "default" else ["--insecure"]
    with Daemon(*map(str, options)) as daemon:
        line = line.replace("localhost:8080", f"localhost:{daemon.port}")
        said = subprocess.run(line, shell=True, capture_output=True, text=True, check=True,
                              env={**environment(), "KEY": key}).stdout
    assert '"weights"' in said, said


def test_the_notes_know_of_tls(tmp_path):
    assert "curl -sSk https://localhost:8080/v1/attention" in helm.notes(tmp_path, VALUES["all"])


def test_kserve_takes_it():
    if not CLIENTS.exists():
        containers.lacking("there is no build/clients-venv: tools/setup all")
    script = ROOT / "tests" / "deploy" / "kserve_fields.py"
    done = subprocess.run([CLIENTS, script, *KSERVE], capture_output=True, text=True, check=False)
    assert len(KSERVE) == 2 and done.returncode == 0, done.stderr[-2000:]


def test_kserve_calls_what_there_is(mounted):
    service, runtime = (yaml.safe_load(file.read_text()) for file in KSERVE)
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] in [item["name"] for item in
                                            runtime["spec"]["supportedModelFormats"]]
    (container,) = runtime["spec"]["containers"]
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
         "spec": {"containers": [container], "volumes": runtime["spec"]["volumes"]}},
        "1.37", strict=True)
    with Daemon() as daemon:
        for probe in ("readinessProbe", "livenessProbe"):
            assert daemon.client.get(container[probe]["httpGet"]["path"]).status == 200
        assert daemon.client.get(f"/v2/models/{service['metadata']['name']}/ready").status == 200
    assert in_effect(container, mounted[0])["key_file"].endswith("/keys/keys")
