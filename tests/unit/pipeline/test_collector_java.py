"""Which Java Spark gets, and what to do when there is none that will do."""

import os
import time
from pathlib import Path

import pytest

from nexus.pipeline.collector.archive import class_archive
from nexus.pipeline.collector.java import Java, NoJava, find_java, major


def installed(home: Path, release: str | None, says: str = "") -> Path:
    """A Java that is a shell script."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = installed(tmp_path / "home", "21.0.1")
    other = installed(tmp_path / "other", "17.0.2")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(environ) == Java(home, "21.0.1")
    assert find_java({"PATH": str(other / "bin")}) == Java(other, "17.0.2")


def test_a_link_on_the_path_is_followed_home(tmp_path: Path) -> None:
    home = installed(tmp_path / "jvm", "17.0.2")
    links = tmp_path / "bin"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(links)}).home == home


def test_without_a_release_file_java_is_asked(tmp_path: Path) -> None:
    home = installed(tmp_path, None, 'openjdk version "17.0.9" 2023-10-17')
    assert find_java({"JAVA_HOME": str(home)}).version == "17.0.9"


@pytest.mark.parametrize(
    ("release", "says"), [("1.8.0_292", "which is Java 1.8.0_292"), ("11.0.2", "Java 11.0.2")]
)
def test_one_that_is_too_old_is_refused_with_what_to_install(
    tmp_path: Path, release: str, says: str
) -> None:
    home = installed(tmp_path, release)
    with pytest.raises(NoJava) as refused:
        find_java({"JAVA_HOME": str(home)})
    assert says in str(refused.value)
    assert "apt install openjdk-17-jre-headless" in str(refused.value)


def test_none_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match=r"none on the path: install Java 17"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(NoJava, match="there is no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})
    home = installed(tmp_path / "odd", None, "what?")
    with pytest.raises(NoJava, match="does not say which Java it is"):
        find_java({"JAVA_HOME": str(home)})


def test_the_number_that_counts() -> None:
    assert [major(v) for v in ("17.0.15", "1.8.0_292", "25", "x")] == [17, 8, 25, 0]


JAVA = Java(Path("/jvm"), "17.0.1")


def test_the_first_start_records_and_the_next_uses_what_was_made(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = class_archive(JAVA, tmp_path, "4.3.0", cache)
    assert first is not None
    assert "-XX:+RecordDynamicDumpInfo" in first.java_options()
    first.path.touch()
    second = class_archive(JAVA, tmp_path, "4.3.0", cache)
    assert second is not None
    assert f"-XX:SharedArchiveFile={first.path}" in second.java_options()


def test_another_java_spark_or_set_of_jars_needs_another_archive(tmp_path: Path) -> None:
    def path(java: Java = JAVA, home: Path = tmp_path, version: str = "4.3.0") -> Path:
        found = class_archive(java, home, version, tmp_path / "cache")
        assert found is not None
        return found.path

    (tmp_path / "jars").mkdir()
    before = path()
    others = {path(Java(Path("/jvm"), "17.0.2")), path(home=tmp_path / "b"), path(version="4.3.1")}
    os.utime(tmp_path / "jars", ns=(1, 1))
    assert len({before, *others, path()}) == 5


def test_where_nothing_can_be_kept_there_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert class_archive(JAVA, tmp_path, "4.3.0", tmp_path / "file" / "cache") is None


def test_what_a_killed_collector_left_half_written_goes(tmp_path: Path) -> None:
    old, fresh = tmp_path / "spark-x.1.new", tmp_path / "spark-x.2.new"
    old.touch()
    fresh.touch()
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    class_archive(JAVA, tmp_path, "4.3.0", tmp_path)
    assert (old.exists(), fresh.exists()) == (False, True)
