# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by openssl."""
import subprocess


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Authority:
    """One that signs; its own certificate is folder/NAME.crt."""

    def __init__(self, folder, name="authority"):
        self.folder, self.name = folder, name
        self.certificate, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.key, "-out", self.certificate, "-days", 2, "-subj", f"/CN={name}")

    def sign(self, name, place=None, days=2):
        """(certificate, key) for a server on this machine, or a client."""
        place = place or name
        certificate, key = self.folder / f"{place}.crt", self.folder / f"{place}.key"
        request, more = self.folder / f"{place}.csr", self.folder / f"{place}.ext"
        more.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                key, "-out", request, "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
                "-CAcreateserial", "-out", certificate, "-days", days, "-extfile", more)
        return certificate, key
