"""One small Spark for all the tests of a process: a session costs seconds, a job does not."""

import os
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession


@cache
def spark_session() -> SparkSession:
    """A local session with two cores and little memory; it ends with the process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    root = Path(mkdtemp(prefix="nexus-spark-"))
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "768m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.local.dir": str(root),
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
