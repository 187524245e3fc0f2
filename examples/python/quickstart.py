# SPDX-License-Identifier: Apache-2.0
# One call with nothing but Python's own library: two keys, one query, the output and the map.
import json
import urllib.request

call = {"q": [[1, 0]], "k": [[1, 0], [0, 1]], "v": [[10, 20], [30, 40]],
        "return": ["output", "weights"]}
request = urllib.request.Request("http://127.0.0.1:8080/v1/attention", json.dumps(call).encode(),
                                 {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request)))
