"""All that a broker keeps on disk: topics, their partitions' logs, and how the last run ended.

One process holds a data directory at a time. What makes or changes a topic is durable when it
returns. Nothing here runs on the event loop.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Final, TypeVar

from nexus.log import data_dir as top
from nexus.log.config import LogConfig
from nexus.log.data_dir import DataDirInUse, DataDirTooNew, DataDirUnreadable, StoreMeta
from nexus.log.files import OpenFile, sync_directory, write_file
from nexus.log.partition_log import PartitionLog
from nexus.log.topic_meta import TopicMeta, TopicUnreadable, check_name
from nexus.wire.errors import (
    InvalidPartitions,
    StorageError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

__all__ = ["DataDirInUse", "DataDirTooNew", "DataDirUnreadable", "LogStore"]

_log: Final = logging.getLogger(__name__)
_THREADS: Final = 8

ConfigFor = Callable[[TopicMeta], LogConfig]
Key = tuple[str, int]
T = TypeVar("T")
R = TypeVar("R")


class LogStore:
    """The data directory, held by this process."""

    def __init__(self, data_dir: Path, lock: OpenFile, now_ms: Callable[[], int]) -> None:
        self.data_dir = data_dir
        self.topics: dict[str, TopicMeta] = {}
        self.logs: dict[Key, PartitionLog] = {}
        self.meta = StoreMeta(top.FORMAT_VERSION, "", None)
        self.clean = False
        self._lock_file: OpenFile | None = lock
        self._now_ms = now_ms
        self._points: dict[str, int] = {}
        self._first_point: int | None = 0
        self._mutex = RLock()

    @classmethod
    def open(
        cls, data_dir: Path, *, now_ms: Callable[[], int], node_id: int | None = None
    ) -> LogStore:
        """Take a data directory, making it if need be; `load` opens what is in it.

        Raises DataDirInUse, DataDirTooNew, DataDirUnreadable, or StorageError.
        """
        try:
            for path in (data_dir / "topics", data_dir / "deleted"):
                path.mkdir(parents=True, exist_ok=True)
            store = cls(data_dir, top.lock(data_dir), now_ms)
            store.meta = top.read_or_make_meta(data_dir, node_id)
            store.clean = top.take_clean_mark(data_dir)
            points = top.read_points(data_dir)
            store._points = points or {}
            # A partition that has no point yet was not synced; if all are lost, nobody knows.
            store._first_point = 0 if points is not None else None
            store._find_topics()
            sync_directory(data_dir)
        except OSError as error:
            raise StorageError(f"{data_dir}: {error.strerror or error}") from error
        return store

    def _find_topics(self) -> None:
        for directory in sorted((self.data_dir / "topics").iterdir()):
            try:
                self.topics[directory.name] = TopicMeta.load(directory)
            except (FileNotFoundError, NotADirectoryError):
                # Its creation or deletion was interrupted before it counted.
                _log.warning("%s is no topic and is set aside", directory)
                directory.rename(self._grave())
            except TopicUnreadable as error:
                _log.error("a topic is left out: %s", error)

    def load(self, config_for: ConfigFor) -> dict[Key, PartitionLog]:
        """Open every partition; one that cannot be opened is there, but offline."""
        wanted = [(meta, number) for meta in self.topics.values() for number in meta.numbers]
        opened = _side_by_side(lambda one: self._open_log(*one, config_for(one[0])), wanted)
        for (meta, number), log in zip(wanted, opened, strict=True):
            self.logs[meta.name, number] = log
        self.clean = False
        return dict(self.logs)

    def _open_log(self, meta: TopicMeta, number: int, config: LogConfig) -> PartitionLog:
        directory = self._partition_dir(meta.name, number)
        point = self._points.get(_point_name(meta, number), self._first_point)
        try:
            return PartitionLog.open(
                directory, config, recovery_point=point, clean=self.clean, now_ms=self._now_ms
            )
        except StorageError as failure:
            return PartitionLog.offline(directory, config, failure, self._now_ms)

    # Topics -----------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int, configs: dict[str, str], config_for: ConfigFor
    ) -> tuple[TopicMeta, list[PartitionLog]]:
        """Make a topic and its logs. Raises TopicAlreadyExists, InvalidTopic, StorageError."""
        with self._mutex:
            directory = self._topic_dir(name)
            if name in self.topics:
                raise TopicAlreadyExists(f"topic {name} exists")
            meta = TopicMeta(name, uuid.uuid4(), partitions, dict(configs), self._now_ms())
            try:
                directory.mkdir()
                logs = self._make_logs(meta, range(partitions), config_for(meta))
                meta.save(directory)
                sync_directory(directory.parent)
            except (OSError, StorageError) as error:
                shutil.rmtree(directory, ignore_errors=True)
                raise StorageError(f"topic {name} cannot be created: {error}") from error
            self._add(meta, 0, logs)
            return meta, logs

    def add_partitions(self, name: str, count: int, config_for: ConfigFor) -> list[PartitionLog]:
        """Let a topic have `count` partitions; returns the logs of the new ones."""
        with self._mutex:
            old = self._known(name)
            if count <= old.partitions:
                raise InvalidPartitions(f"topic {name} has {old.partitions} partitions already")
            meta = replace(old, partitions=count)
            try:
                logs = self._make_logs(meta, range(old.partitions, count), config_for(meta))
                meta.save(self._topic_dir(name))
            except OSError as error:
                raise StorageError(f"topic {name} cannot grow: {error}") from error
            self._add(meta, old.partitions, logs)
            return logs

    def _make_logs(
        self, meta: TopicMeta, numbers: Iterable[int], config: LogConfig
    ) -> list[PartitionLog]:
        logs = []
        for number in numbers:
            directory = self._partition_dir(meta.name, number)
            # What an attempt that was cut short left here was never part of the topic.
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            logs.append(
                PartitionLog.open(
                    directory, config, recovery_point=0, clean=False, now_ms=self._now_ms
                )
            )
        sync_directory(self._topic_dir(meta.name))
        return logs

    def _add(self, meta: TopicMeta, first: int, logs: list[PartitionLog]) -> None:
        self.topics[meta.name] = meta
        for number, log in enumerate(logs, first):
            self.logs[meta.name, number] = log

    def set_configs(self, name: str, configs: dict[str, str]) -> TopicMeta:
        """Replace a topic's own settings; the logs are told by whoever derives theirs."""
        with self._mutex:
            meta = replace(self._known(name), configs=dict(configs))
            try:
                meta.save(self._topic_dir(name))
            except OSError as error:
                raise StorageError(f"topic {name} cannot be changed: {error}") from error
            self.topics[name] = meta
            return meta

    def delete_topic(self, name: str) -> Path:
        """Make a topic cease to exist; returns what `remove` has to clear away."""
        with self._mutex:
            meta = self._known(name)
            grave = self._grave()
            try:
                self._topic_dir(name).rename(grave)
                sync_directory(self.data_dir / "topics")
            except OSError as error:
                raise StorageError(f"topic {name} cannot be deleted: {error}") from error
            del self.topics[name]
            self._let_go(meta)
            return grave

    def _let_go(self, meta: TopicMeta) -> None:
        for number in meta.numbers:
            self._points.pop(_point_name(meta, number), None)
            log = self.logs.pop((meta.name, number), None)
            if log is not None:
                log.abandon()

    # Topics that other brokers share --------------------------------------------------------------

    def host(
        self, meta: TopicMeta, numbers: Iterable[int], config_for: ConfigFor
    ) -> dict[int, PartitionLog]:
        """Keep these partitions of a topic here too; returns the logs of those that are new.

        What the topic is called and set to is taken from `meta`. A topic of the same name that is
        another one is set aside, not deleted: nobody here knows whether it is still wanted.
        """
        with self._mutex:
            old = self.topics.get(meta.name)
            if old is not None and old.topic_id != meta.topic_id:
                self.set_aside(meta.name)
                old = None
            known = () if old is None or old.local is None else old.local
            added = sorted(set(numbers) - set(known))
            meta = replace(meta, local=tuple(sorted({*known, *added})))
            directory = self._topic_dir(meta.name)
            try:
                directory.mkdir(exist_ok=True)
                logs = self._make_logs(meta, added, config_for(meta))
                meta.save(directory)
                sync_directory(directory.parent)
            except (OSError, StorageError) as error:
                raise StorageError(f"topic {meta.name} cannot be kept here: {error}") from error
            self.topics[meta.name] = meta
            made = dict(zip(added, logs, strict=True))
            self.logs.update({(meta.name, number): log for number, log in made.items()})
            return made

    def unhost(self, name: str, number: int) -> Path:
        """Keep a partition here no more; returns what `remove` has to clear away."""
        grave = self._grave()
        self._move_log(name, number, grave)
        return grave

    def set_log_aside(self, name: str, number: int) -> None:
        """Serve a partition no more, and leave its log where a person can find it.

        One that was left there before goes: a disk that rots must not fill itself.
        """
        place = self._stray(f"{name}-{self._known(name).topic_id}-{number}")
        shutil.rmtree(place, ignore_errors=True)
        self._move_log(name, number, place)
        _log.warning("the log of %s/%d is kept in %s", name, number, place)

    def _move_log(self, name: str, number: int, place: Path) -> None:
        with self._mutex:
            old = self._known(name)
            meta = replace(old, local=tuple(one for one in old.numbers if one != number))
            try:
                place.parent.mkdir(exist_ok=True)
                meta.save(self._topic_dir(name))
                log = self.logs.pop((name, number), None)
                if log is not None:
                    log.abandon()
                self._partition_dir(name, number).rename(place)
            except OSError as error:
                raise StorageError(f"{name}/{number} cannot be removed: {error}") from error
            self._points.pop(_point_name(old, number), None)
            self.topics[name] = meta

    def set_aside(self, name: str) -> None:
        """Serve a topic no more, and leave its data where a person can find it."""
        with self._mutex:
            meta = self._known(name)
            place = self._stray(f"{name}-{meta.topic_id}")
            try:
                place.parent.mkdir(exist_ok=True)
                self._topic_dir(name).rename(place)
                sync_directory(self.data_dir / "topics")
            except OSError as error:
                raise StorageError(f"topic {name} cannot be set aside: {error}") from error
            _log.warning("topic %s is not the cluster's; its data is kept in %s", name, place)
            del self.topics[name]
            self._let_go(meta)

    def remove(self, remains: Path) -> None:
        """Free the space of a deleted topic; takes as long as the file system does."""
        shutil.rmtree(remains, ignore_errors=True)

    def remove_deleted(self) -> None:
        """Free the space of topics whose removal was interrupted."""
        for remains in (self.data_dir / "deleted").iterdir():
            self.remove(remains)

    def _known(self, name: str) -> TopicMeta:
        if name not in self.topics:
            raise UnknownTopicOrPartition(f"there is no topic {name}")
        return self.topics[name]

    def _topic_dir(self, name: str) -> Path:
        return self.data_dir / "topics" / check_name(name)

    def _partition_dir(self, name: str, number: int) -> Path:
        return self._topic_dir(name) / f"partition-{number}"

    def _stray(self, name: str) -> Path:
        return self.data_dir / "stray" / name

    def _grave(self) -> Path:
        return self.data_dir / "deleted" / uuid.uuid4().hex

    # The whole --------------------------------------------------------------------------------

    def reserve_producer_ids(self, count: int) -> range:
        """Producer ids that nobody had before, durably taken."""
        with self._mutex:
            path = self.data_dir / top.PRODUCER_IDS_FILE
            try:
                first = int((top.read_json(path) or {}).get("next", 0))
                top.write_json(path, {"next": first + count})
            except OSError as error:
                raise StorageError(f"{path}: {error.strerror}") from error
            return range(first, first + count)

    def checkpoint(self) -> None:
        """Sync what a crash would cost time to make up for, and write the recovery points."""
        logs = self._running()
        points = dict(self._points)
        for name, log in logs:
            try:
                points[name] = log.checkpoint()
            except StorageError:
                continue  # it is offline, and its point stays
        self._write_points(points)
        for name, log in logs:
            if name in points and log.failure is None:
                log.checkpointed()

    def _running(self) -> list[tuple[str, PartitionLog]]:
        with self._mutex:
            return [
                (_point_name(self.topics[name], number), log)
                for (name, number), log in self.logs.items()
            ]

    def _write_points(self, points: dict[str, int]) -> None:
        with self._mutex:
            known = {name for name, _ in self._running()}
            points = {name: point for name, point in points.items() if name in known}
            if points == self._points:
                return
            try:
                top.write_points(self.data_dir, points)
            except OSError as error:
                raise StorageError(f"{self.data_dir}: {error.strerror}") from error
            self._points = points

    def close(self) -> None:
        """Close every log and leave the mark of a clean stop. Safe to call twice."""
        if self._lock_file is None:
            return
        try:
            self._close_logs()
        finally:
            self._lock_file = None

    def _close_logs(self) -> None:
        names, logs = zip(*self._running(), strict=True) if self.logs else ((), ())
        _side_by_side(partial(_close_log), logs)
        points = dict(self._points)
        points.update({name: log.flushed_offset for name, log in zip(names, logs, strict=True)})
        try:
            self._write_points(points)
            write_file(self.data_dir / top.CLEAN_FILE, b"")
        except (OSError, StorageError) as error:
            _log.error("the stop is not clean, the next start checks the logs: %s", error)


def _point_name(meta: TopicMeta, number: int) -> str:
    return f"{meta.topic_id}/{number}"


def _close_log(log: PartitionLog) -> None:
    try:
        log.close()
    except StorageError as error:
        _log.error("a log was not closed cleanly: %s", error)


def _side_by_side(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="log") as pool:
        return list(pool.map(work, items))
