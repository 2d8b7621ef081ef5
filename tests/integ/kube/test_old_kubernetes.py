"""What injection does for a cluster that is older than any that runs here: a server that says its version, and has nothing else."""

import base64
import http.client
import http.server
import json
import ssl
import threading

import pytest
from fakes import wait_until
from trust_rig import Operator


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        version = self.server.says if self.path == "/version" else None
        body = json.dumps(version or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}).encode()
        self.send_response(200 if version else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PATCH = do_GET

    def log_message(self, *words):
        pass


@pytest.fixture
def old(tmp_path):
    """old(version): an operator of a cluster that says that version."""
    made = []

    def make(says):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        server.says = says
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path / "config"
        members = {"server": f"http://127.0.0.1:{server.server_port}"}
        config = {"clusters": [{"name": "c", "cluster": members}], "users": [{"name": "u", "user": {}}]}
        config |= {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
        made.append((Operator(file), server))
        return made[-1]

    yield make
    for operator, server in made:
        operator.stop()
        server.shutdown()


def inject(operator):
    """The webhook's answer for a pod that opts in."""
    labels = {"kelpie.dev/engine": "e"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    what = {"kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"}}
    request = {"uid": "u", **what, "namespace": "d", "operation": "CREATE", "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # there is nobody to tell of its certificate
    connection = http.client.HTTPSConnection("127.0.0.1", operator.https, context=context, timeout=20)
    connection.request("POST", "/inject", json.dumps(review), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return json.loads(text)["response"] if answer.status == 200 else None


def test_native_sidecars_need_a_kubernetes_that_has_them(old):
    operator, server = old({"major": "1", "minor": "28+"})
    operator.wait_for(r'"msg":"API server","minor":28')
    answer = wait_until(lambda: inject(operator), "that engines and pools are known")
    assert not answer["allowed"] and "native sidecars need Kubernetes 1.29, this is 1.28" in answer["status"]["message"]


def test_a_version_that_makes_no_sense_is_asked_for_again(old):
    operator, server = old({"major": "one"})
    answer = wait_until(lambda: inject(operator), "that engines and pools are known")
    assert answer["allowed"] and b"kelpie-gateway" in base64.b64decode(answer["patch"])
    server.says = {"major": "1", "minor": "30"}
    operator.wait_for(r'"msg":"API server","minor":30')
    assert any("kubernetes #126543" in line for line in inject(operator)["warnings"])
