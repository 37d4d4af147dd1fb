"""Starts Spark for a collector and ends it: a Java machine of its own, out of the terminal's reach.

The Java machine is in a session of its own, so that Ctrl-C comes to the collector and to nobody
else. It ends when the collector does, however that ends, since it reads a pipe from it.
"""

from __future__ import annotations

import logging
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from nexus.pipeline.collector.archive import ClassArchive, class_archive
from nexus.pipeline.collector.conf import Places, is_local, log_settings, pools, spark_conf
from nexus.pipeline.collector.failures import failure_of
from nexus.pipeline.collector.java import find_java
from nexus.pipeline.collector.shipping import ship
from nexus.pipeline.errors import PipelineError
from nexus.settings.collector import CollectorSection

_START_S: Final = 120.0
_STOP_S: Final = 30.0
_POLL_S: Final = 0.02
_END_S: Final = 3.0  # in which a machine that is ending has ended
_LINE_MAX: Final = 300
# Of the gateway's port and secret, as PySpark reads them from a machine that runs already.
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class SparkFailed(PipelineError):
    """Raised when Spark does not start, or ends by itself."""


class SparkRun:
    """One Spark application: `start`, then `spark`; `stop` is safe at any time and twice."""

    def __init__(self, own: CollectorSection, places: Places) -> None:
        self.places = places
        self._own = own
        self._lock = threading.Lock()
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._spark: SparkSession | None = None
        self._archive: ClassArchive | None = None

    def start(self) -> SparkSession:
        """A new application; NoJava or SparkFailed say what is wrong."""
        java = find_java(os.environ)
        home = Path(pyspark.__file__).parent
        if self._own.fast_start:
            self._archive = class_archive(java, home, pyspark.__version__, self._own.cache_dir)
        conf = self._prepared()
        os.environ["PYSPARK_PYTHON"] = self._own.python or sys.executable
        gateway = self._gateway(home, conf)
        try:
            context = SparkContext(gateway=gateway, conf=_told(conf))
            self._spark = SparkSession(context)
            # It prints the trace of a connection that Java's end cut off; that end is told anyway.
            setattr(context._accumulatorServer, "handle_error", lambda *_: None)  # noqa: B010
        except Exception as error:
            said = SparkFailed(f"Spark does not start: {_reason(error)}{self._words()}")
            raise self._own_end(_END_S) or said from error
        return self._spark

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            raise SparkFailed("Spark has not started")
        return self._spark

    @property
    def pid(self) -> int | None:
        """The Java machine's process."""
        return None if self._process is None else self._process.pid

    @property
    def wants_archive(self) -> bool:
        """Whether `write_archive` would make the next start a faster one."""
        return self._archive is not None and not self._archive.exists

    def write_archive(self) -> None:
        """Stops the Java machine for some seconds; once for all later starts."""
        archive, self._archive = self._archive, None
        if archive is not None:
            archive.write(self.spark)

    def check(self) -> None:
        """SparkFailed once the Java machine has ended by itself."""
        ended = None if self._process is None or self._stopped else self._process.poll()
        if ended is not None:
            raise SparkFailed(
                f"Spark's Java machine ended by itself ({_how(ended)}){self._words()}"
            )

    def explain(self, error: Exception, within_s: float = _END_S) -> Exception:
        """What to say of an error while talking to Spark: mostly that it is not there any more."""
        ended = self._own_end(within_s)
        if ended is not None or isinstance(error, OSError):
            return ended or error
        return SparkFailed(f"{failure_of(error).message} (see {self.places.log})")

    def _own_end(self, within_s: float) -> SparkFailed | None:
        """That the Java machine has ended by itself, if it has or is about to."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            try:
                self.check()
            except SparkFailed as failed:
                return failed
            time.sleep(_POLL_S)
        return None

    def stop(self, within_s: float = _STOP_S) -> None:
        """End the application and its Java machine in good order, or else at once."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        if self._process is None:
            return
        if self._process.poll() is None and self._spark is not None:
            with suppress(Exception):  # a machine that ends meanwhile has nothing left to stop
                self._spark.stop()
        _forget_gateway()
        self._end(within_s)

    def kill(self) -> None:
        """End the Java machine at once."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def _end(self, within_s: float) -> None:
        assert self._process is not None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        shutil.rmtree(self.places.scratch, ignore_errors=True)

    def _prepared(self) -> dict[str, str]:
        """The places are made and the settings written."""
        places = self.places
        places.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(places.scratch, ignore_errors=True)  # of one that was killed
        places.scratch.mkdir(exist_ok=True)  # whose Java may be at its end, and still write
        places.log_settings.write_text(log_settings(places))
        places.pools.write_text(pools())
        options = self._archive.java_options() if self._archive else []
        conf = spark_conf(self._own, places, options)
        if not is_local(conf):
            conf = spark_conf(self._own, places, options, [ship(places.folder)])
        return conf

    def _gateway(self, home: Path, conf: Mapping[str, str]) -> Any:
        words = [str(home / "bin" / "spark-submit")]
        words += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        with TemporaryDirectory() as folder, self.places.output.open("wb") as output:
            info = Path(folder) / "gateway"
            with self._lock:
                if self._stopped:
                    raise SparkFailed("stopped")
                environment = _environment_of(home, info, conf)
                self._process = _started([*words, "pyspark-shell"], environment, output)
            port, secret = self._connection(info)
        with _environment({_PORT: str(port), _SECRET: secret}):
            gateway = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark's own
        _quiet_py4j()
        return gateway

    def _connection(self, info: Path) -> tuple[int, str]:
        deadline = time.monotonic() + _START_S
        while not info.is_file():
            self.check()
            if self._stopped or time.monotonic() > deadline:
                raise SparkFailed(f"Spark's Java machine does not answer{self._words()}")
            time.sleep(_POLL_S)
        port, size = struct.unpack_from(">ii", said := info.read_bytes())
        return port, said[8 : 8 + size].decode()

    def _words(self) -> str:
        """The last that was said, and where to read more."""
        try:
            lines = self.places.output.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {said[:_LINE_MAX]}" * bool(said) + f" (see {self.places.output})"


def _environment_of(home: Path, info: Path, conf: Mapping[str, str]) -> dict[str, str]:
    # Not all of Spark's Python processes on the driver look into what is shipped.
    shipped = [path for path in conf.get("spark.submit.pyFiles", "").split(",") if path]
    paths = [*shipped, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        **({"PYTHONPATH": os.pathsep.join(paths)} if paths else {}),
        "SPARK_HOME": str(home),
        "SPARK_CONNECT_MODE": "0",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
        "MALLOC_ARENA_MAX": "2",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _started(
    words: list[str], environment: Mapping[str, str], output: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables for as long as a block runs: PySpark has no other way to be told."""
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)


def _quiet_py4j() -> None:
    """It logs what it also raises: some under its own name, some under none."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for handler in logging.getLogger().handlers:
        if _is_not_py4j not in handler.filters:
            handler.addFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return record.name != "root" or "py4j" not in record.pathname


def _told(conf: Mapping[str, str]) -> SparkConf:
    told = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        told.set(key, value)
    return told


def _forget_gateway() -> None:
    """So that another application in this process begins with a Java machine of its own."""
    gateway = SparkContext._gateway
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None


def _reason(error: Exception) -> str:
    """The first line that says something."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java.toString()) if java is not None else str(error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"killed by signal {-code}" + (", perhaps for want of memory" if code == -9 else "")
