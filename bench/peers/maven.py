"""Java archives from Maven Central, kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from nexus.bench.clients import BenchFailed

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>bench</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies><dependency>
<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>
</dependency></dependencies>
</project>
"""


def kept(artifact: str) -> Path:
    """Where the archives of "group:name:version" are, or would be."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache_home) / "nexus-bench" / artifact.replace(":", "-")


def missing_tools() -> str | None:
    for command, package in (("java", "openjdk-17-jre-headless"), ("mvn", "maven")):
        if shutil.which(command) is None:
            return f"{command} is not installed: apt-get install {package}"
    return None


@cache
def archives(artifact: str) -> Path:
    """A folder with an artifact and all that it depends on; fetched the first time."""
    place = kept(artifact)
    if place.exists():
        return place
    if (told := missing_tools()) is not None:
        raise BenchFailed(told)
    # Whole or not at all: a broken fetch leaves nothing under the name.
    work = place.with_name(place.name + ".part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    group, name, version = artifact.split(":")
    (work / "pom.xml").write_text(_POM.format(group=group, name=name, version=version))
    command = ["mvn", "-q", "-B", "-f", str(work), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={work}/jars"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        said = next((line for line in done.stdout.splitlines() if "[ERROR]" in line), "")
        raise BenchFailed(f"{artifact} could not be fetched: {said[:300]}")
    (work / "jars").rename(place)
    shutil.rmtree(work)
    return place
