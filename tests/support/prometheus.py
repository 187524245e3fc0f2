# SPDX-License-Identifier: Apache-2.0
"""A Prometheus of the tests' own, which scrapes what they start."""
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import yaml

from support.daemon import bound, free_port


class Prometheus:
    def __init__(self, folder, port, interval="200ms", rules=None):
        """Scrapes this port as the job attentiond; `rules` is the content of a file of rules, with
        which everything is evaluated as often as it is scraped."""
        assert shutil.which("prometheus"), "Debian's package prometheus is not installed"
        timing = {"scrape_interval": interval, "scrape_timeout": interval,
                  "evaluation_interval": interval}
        config = {"global": timing, "scrape_configs": [
            {"job_name": "attentiond", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]}
        if rules is not None:
            (folder / "rules.yml").write_text(yaml.safe_dump(rules))
            config["rule_files"] = ["rules.yml"]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.port = free_port()
        self.process = subprocess.Popen(
            bound(["prometheus", f"--config.file={folder}/prometheus.yml",
                   f"--storage.tsdb.path={folder}/data",
                   f"--web.listen-address=127.0.0.1:{self.port}"]),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, path, **query):
        """The data of an answer of its API; None where it is not there yet. An expression that it
        does not take fails."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?" + urllib.parse.urlencode(query)
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            assert error.code == 503, f"{query}: {error.read().decode(errors='replace')}"
            return None
        except (urllib.error.URLError, ConnectionError):
            return None

    def query(self, expression):
        """The vector that it evaluates to; empty while Prometheus starts."""
        data = self.ask("query", query=expression)
        return data["result"] if data else []

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.terminate()
        self.process.wait(30)
