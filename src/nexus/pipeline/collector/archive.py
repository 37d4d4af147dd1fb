"""An archive of the classes that Spark loads, with which its next start takes less time.

It is made once for each Java, Spark and place of its jars, while a collector has nothing to do: the
Java machine stands still meanwhile. A start without one records what it would hold; a damaged one
is passed over by Java itself.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from nexus.observe.logs import get_logger
from nexus.pipeline.collector.java import Java

log = get_logger(__name__)

_ABANDONED_S: Final = 3600.0
_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-XX:+IgnoreUnrecognizedVMOptions")
_COMMANDS: Final = "com.sun.management:type=DiagnosticCommand"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the archive is, and whether it is there."""

    path: Path
    exists: bool

    def java_options(self) -> list[str]:
        if self.exists:
            return [f"-XX:SharedArchiveFile={self.path}", *_QUIET]
        return ["-XX:+RecordDynamicDumpInfo", *_QUIET]

    def write(self, spark: SparkSession) -> None:
        """Make the archive of a machine that records; what fails is left to another start."""
        fresh = self.path.with_suffix(f".{os.getpid()}.new")
        begun = time.monotonic()
        try:
            _dump(spark.sparkContext._jvm, spark.sparkContext._gateway, str(fresh))
            fresh.replace(self.path)
        except (Py4JError, OSError) as error:
            log.debug("no class archive was made", why=str(error).splitlines()[0])
            return
        log.debug("class archive made", path=self.path, seconds=round(time.monotonic() - begun, 1))


def class_archive(
    java: Java, spark_home: Path, spark_version: str, cache_dir: Path
) -> ClassArchive | None:
    """The archive for this Java and Spark; None where there is no place to keep one."""
    path = cache_dir.absolute() / f"spark-{_key(java, spark_home, spark_version)}.jsa"
    if path.is_file():
        return ClassArchive(path, exists=True)
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        _forget_abandoned(cache_dir)
    except OSError:
        return None
    return ClassArchive(path, exists=False) if os.access(cache_dir, os.W_OK) else None


def _key(java: Java, spark_home: Path, spark_version: str) -> str:
    jars = spark_home / "jars"
    changed = jars.stat().st_mtime_ns if jars.is_dir() else 0
    said = f"{java.home} {java.version} {spark_version} {jars} {changed}"
    return f"{spark_version}-{sha256(said.encode()).hexdigest()[:12]}"


def _forget_abandoned(cache_dir: Path) -> None:
    """What a collector left that was killed while it wrote."""
    for left in cache_dir.glob("spark-*.new"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()


def _dump(jvm: Any, gateway: Any, path: str) -> None:
    """What `jcmd VM.cds dynamic_dump` does, which a plain runtime of Java does not have.

    The management server's class is not public, so its method is called by reflection.
    """

    def array(kind: Any, *values: Any) -> Any:
        made = gateway.new_array(kind, len(values))
        for at, value in enumerate(values):
            made[at] = value
        return made

    kinds, text, thing = jvm.java.lang.Class, jvm.java.lang.String, jvm.java.lang.Object
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    name = jvm.javax.management.ObjectName(_COMMANDS)
    arguments = array(thing, array(text, "dynamic_dump", path))
    types = array(text, "[Ljava.lang.String;")
    taken = array(
        kinds,
        kinds.forName("javax.management.ObjectName"),
        kinds.forName("java.lang.String"),
        arguments.getClass(),
        types.getClass(),
    )
    invoke = kinds.forName("javax.management.MBeanServer").getMethod("invoke", taken)
    invoke.invoke(server, array(thing, name, "vmCds", arguments, types))
