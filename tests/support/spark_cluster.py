"""A standalone Spark cluster from the pyspark package: a master and two workers on loopback.

The workers' interpreter has the libraries of this one, and not nexus itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from support.collectors import kill, marked
from support.ports import free_port
from support.waiting import wait_until

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MARK = "NEXUS_TEST_CLUSTER"
START_SECONDS = 120.0
WORKERS = 2


@dataclass
class SparkCluster:
    """A running cluster; `python` is the interpreter that its workers have."""

    folder: Path
    python: Path
    port: int

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def mark(self) -> str:
        """What all its processes have in their environment."""
        return f"{MARK}={self.port}"

    def executors(self) -> list[int]:
        """The Java machines in which tasks run."""
        found = marked(self.mark).items()
        return sorted(pid for pid, words in found if "CoarseGrainedExecutorBackend" in words)

    def work(self, number: int) -> Path:
        """Where a worker keeps the files of its executors."""
        return self.folder / f"worker-{number}" / "work"


def bare_python(folder: Path) -> Path:
    """An interpreter with every library that nexus needs, in which nexus is not installed.

    A folder that a .pth file names is searched, but the .pth files in it do not count: so what
    is installed as a link to its sources, as nexus is, is not found.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


@contextmanager
def spark_cluster(folder: Path, environ: Mapping[str, str] | None = None) -> Iterator[SparkCluster]:
    """A cluster with two workers of one core each, ready for an application."""
    cluster = SparkCluster(folder, bare_python(folder / "python"), free_port())
    given = dict(environ or {}) | {MARK: str(cluster.port)}
    begun: list[subprocess.Popen[bytes]] = []
    try:
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        words = ["master.Master", *place, "--port", str(cluster.port)]
        begun.append(_started(folder / "master", words, given))
        _wait_for(folder / "master", "I have been elected leader")
        for number in range(WORKERS):
            words = ["worker.Worker", *place, "--cores", "1", "--memory", "1g"]
            words += ["--work-dir", str(cluster.work(number)), cluster.master]
            begun.append(_started(folder / f"worker-{number}", words, given))
        for number in range(WORKERS):
            _wait_for(folder / f"worker-{number}", "Successfully registered with master")
        yield cluster
    finally:
        for pid in marked(cluster.mark):
            kill(pid)
        for process in begun:
            process.wait(20)


def _started(folder: Path, words: list[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """In a working directory of its own, without a trace of this checkout in its environment."""
    folder.mkdir(parents=True)
    kept = ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR")
    usual = {name: os.environ[name] for name in kept if name in os.environ}
    usual |= {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
    }
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [str(SPARK_CLASS), f"org.apache.spark.deploy.{words[0]}", *words[1:]],
            cwd=folder,
            env={**usual, **environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _wait_for(folder: Path, text: str) -> None:
    log = folder / "log"
    try:
        wait_until(lambda: text in log.read_text(errors="replace"), within=START_SECONDS, what=text)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text(errors='replace')[-3000:]}") from None
