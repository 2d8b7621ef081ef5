import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import rig  # noqa: E402
from cluster import Operator, install  # noqa: E402
from fakes import Gateway  # noqa: E402


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """etcd and an API server, made by hack/kube/build, which takes minutes: only where somebody built it, or says that it may."""
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    if not all((rig.BINARIES / name).exists() for name in names):
        if not os.environ.get("KELPIE_KUBE_BUILD"):
            pytest.skip("there is no API server: hack/kube/build control makes one, or KELPIE_KUBE_BUILD=1 here")
        subprocess.run([rig.ROOT / "hack/kube/build", "control"], check=True, stdout=sys.stderr)
    folder = tmp_path_factory.mktemp("kube")
    (folder / "bin").symlink_to(rig.BINARIES.resolve())
    made = rig.Cluster(folder)
    yield made
    made.down()


@pytest.fixture
def crds(cluster):
    install(cluster)


@pytest.fixture
def ns(cluster, request):
    """A namespace of the test's own."""
    ns.n += 1
    return cluster.namespace(f"t{ns.n}")


ns.n = 0


@pytest.fixture
def operator(cluster, ns, crds):
    """Of the test's namespace, by itself."""
    o = Operator(cluster.admin, "--watch-namespace", ns.name)
    yield o
    o.stop()


@pytest.fixture
def join(operator, ns):
    """join(id...): a gateway of the test's namespace, played by the test."""
    joined = []

    def make(id, **kw):
        joined.append(Gateway(f"127.0.0.1:{operator.port}", ns=ns.name, id=id, **kw))
        return joined[-1]

    yield make
    for gateway in joined:
        gateway.close()


@pytest.fixture
def probe(cluster):
    """probe(argument of kube_probe...): the administrator's, unless there is one."""
    running = []

    def make(*argv):
        running.append(rig.Probe(*(argv or [cluster.admin])))
        return running[-1]

    yield make
    for p in running:
        if p.process.poll() is None:
            p.end()
