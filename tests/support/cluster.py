"""A Spark cluster on loopback: a master and workers from the pyspark package, each its own process.

The workers' interpreter has the libraries of this one, but not nexus itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from support.ports import free_port
from support.waiting import wait_until

HOME = Path(pyspark.__file__).parent
START_SECONDS = 90.0


@dataclass
class SparkCluster:
    """`start`, then `url` is its master; `stop` ends every process of it."""

    directory: Path
    workers: int = 2
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> SparkCluster:
        self.directory.mkdir(parents=True)
        self._run("master.Master", "--port", str(self.port), "--webui-port", "0")
        for number in range(self.workers):
            work = self.directory / f"worker-{number}"
            work.mkdir()
            words = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "-d", str(work))
            self._run("worker.Worker", *words, self.url)
        wait_until(self._is_whole, within=START_SECONDS, what="workers that know their master")
        return self

    def stop(self) -> None:
        """Workers first; each ends its executors."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def told(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self._logs())

    def _run(self, kind: str, *words: str) -> None:
        environ = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_DAEMON_MEMORY": "256m"}
        environ["SPARK_DAEMON_JAVA_OPTS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        environ.pop("PYTHONPATH", None)
        program = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        log = self.directory / f"{len(self.processes)}.log"
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [*program, "--host", "127.0.0.1", *words],
                    env=environ,
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            )

    def _is_whole(self) -> bool:
        ended = [process.args for process in self.processes if process.poll() is not None]
        assert not ended, f"{ended} ended:\n{self.told()}"
        return self.told().count("Successfully registered with master") == self.workers

    def _logs(self) -> list[Path]:
        return sorted(self.directory.glob("*.log"))


def bare_python(folder: Path) -> Path:
    """An interpreter with every library of this one, and without nexus."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = folder / "lib" / version / "site-packages" / "libraries.pth"
    # A plain path: the files that make nexus known there are not read.
    libraries.write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"
