"""A certificate authority for tests, made with openssl's command line."""

import subprocess


class Authority:
    def __init__(self, folder, name="test CA"):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.cert, self.key = folder, folder / "ca.crt", folder / "ca.key"
        self._run(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", self.key, "-out", self.cert,
        )  # fmt: skip

    def _run(self, *argv):
        subprocess.run(["openssl", *map(str, argv)], cwd=self.folder, check=True, capture_output=True)

    def issue(self, name, *names, days=2, file=None):
        """{"cert": FILE, "key": FILE} for these names ("DNS:a", "URI:b"). days < 0: it has expired."""
        file = file or name
        key, request, cert, ext = (self.folder / f"{file}.{end}" for end in ("key", "csr", "crt", "ext"))
        ext.write_text(f"subjectAltName={','.join(names)}\n")
        self._run(
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request
        )
        self._run(
            "x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", days, "-extfile", ext, "-out", cert
        )
        return {"cert": cert, "key": key}
