"""`nexus cluster` as an operator types it, against a cluster of a test."""

from __future__ import annotations

import subprocess
import sys

# The group of commands on its own: what `nexus cluster` runs.
RUN = (
    "import sys; from nexus.cli.cluster import app;"
    " sys.exit(app(sys.argv[1:], standalone_mode=False))"
)


def nexus_cluster(etcd: str, *words: str, expected: int = 0) -> str:
    """What a command said, on either stream; its exit status must be as expected."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words, "--set", f"cluster.etcd_endpoints={etcd}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == expected, said
    return said
