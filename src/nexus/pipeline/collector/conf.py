"""Spark's settings for a collector: sparing on a small machine, and every one can be overridden.

What a user gives with `--conf` has the last word. Nothing is started here.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nexus.settings.collector import CollectorSection

STREAM_POOL: Final = "stream"
DERIVE_POOL: Final = "derive"
# A failed task (a worker that was killed) is tried again before its batch is.
_TASK_TRIES: Final = 2
_CHECKPOINT_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_DAEMON: Final = "nexus.pipeline.collector.worker_daemon"
# Code that runs once at start is not worth the second compiler's time, which on two cores is
# the start's: with thresholds ten times the usual, only loops over rows reach it.
_LATE_C2: Final = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_JAVA_OPTIONS: Final = ("-XX:+UseSerialGC", *_LATE_C2, "-XX:+ExitOnOutOfMemoryError", "-Xss1m")

_FIXED: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": str(_TASK_TRIES),
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # No bound by bytes: Spark adds up the bytes of all columns anew for every single row, which was
    # a fifth of all its work. Rows are bounded here, bytes by what a batch takes from the queue.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.noDataProgressEventInterval": "2000",
    "spark.sql.streaming.stopTimeout": "60000",
    "spark.sql.ui.retainedExecutions": "2",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.python.worker.reuse": "true",
    "spark.shuffle.compress": "true",
    "spark.io.compression.codec": "lz4",
}
# A loopback driver: executors of a cluster must reach it, so only where there are none.
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Places:
    """Where a collector's Spark keeps its files."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    @property
    def output(self) -> Path:
        """What the Java machine and the Python workers write on their standard error."""
        return self.folder / "spark.out"

    @property
    def log_settings(self) -> Path:
        return self.folder / "log4j2.properties"

    @property
    def pools(self) -> Path:
        return self.folder / "pools.xml"

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def remove(self) -> None:
        """Of work that is done: nobody will read its log."""
        shutil.rmtree(self.folder, ignore_errors=True)


def is_local(conf: Mapping[str, str]) -> bool:
    """Whether the work is done in this process's own Spark."""
    return conf["spark.master"].startswith("local")


def spark_conf(
    own: CollectorSection,
    places: Places,
    java_options: Sequence[str] = (),
    shipped: Sequence[Path] = (),
) -> dict[str, str]:
    """Everything that Spark is told."""
    given = dict(own.conf)
    master = given.get("spark.master") or own.master or f"local[{own.cores},{_TASK_TRIES}]"
    conf = {
        "spark.master": master,
        "spark.app.name": f"nexus-collector-{own.name}",
        **_FIXED,
        **(_LOCAL if master.startswith("local") else _cluster(own, shipped)),
        "spark.driver.memory": f"{own.memory_bytes >> 20}m",
        "spark.sql.shuffle.partitions": str(own.cores),
        "spark.scheduler.allocation.file": places.pools.absolute().as_uri(),
        "spark.local.dir": str(places.scratch.absolute()),
        "spark.sql.warehouse.dir": (places.scratch / "warehouse").absolute().as_uri(),
        "spark.driver.extraJavaOptions": " ".join(_java(places, java_options)),
    }
    if master.startswith("local") and own.python is None:
        conf["spark.python.daemon.module"] = _DAEMON
    extra = given.pop("spark.driver.extraJavaOptions", "")
    if extra:
        conf["spark.driver.extraJavaOptions"] += f" {extra}"
    return conf | given


def log_settings(places: Places) -> str:
    """Spark's log goes to a file of bounded size: the terminal is for the collector's own words."""
    return f"""\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {places.log.absolute()}
appender.file.filePattern = {places.log.absolute()}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
# Said at every start and by every batch, and nothing to be done about it.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.adaptive.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.adaptive.level = error
logger.slow.name = org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor
logger.slow.level = error
"""


def pools() -> str:
    """Batches of the stream come first; jobs that derive tables have what is left."""
    stream = "<schedulingMode>FIFO</schedulingMode><weight>4</weight><minShare>1</minShare>"
    derive = "<schedulingMode>FIFO</schedulingMode><weight>1</weight><minShare>0</minShare>"
    return (
        '<?xml version="1.0"?>\n<allocations>\n'
        f'  <pool name="{STREAM_POOL}">{stream}</pool>\n'
        f'  <pool name="{DERIVE_POOL}">{derive}</pool>\n'
        "</allocations>\n"
    )


def _cluster(own: CollectorSection, shipped: Sequence[Path]) -> dict[str, str]:
    conf = {"spark.submit.pyFiles": ",".join(str(path) for path in shipped)} if shipped else {}
    if own.workers:
        conf |= {"spark.cores.max": str(own.workers), "spark.executor.instances": str(own.workers)}
    return conf


def _java(places: Places, more: Sequence[str]) -> list[str]:
    return [
        *_JAVA_OPTIONS,
        f"-Dlog4j2.configurationFile={places.log_settings.absolute().as_uri()}",
        *more,
    ]
