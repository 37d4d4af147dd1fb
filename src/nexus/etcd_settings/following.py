"""Follows the settings in etcd while a part runs: what may change is taken up, the rest is told.

A document with a mistake in it changes nothing, and so does an etcd that is away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from nexus.errors import NexusError
from nexus.etcd.blocking import BlockingClient, BlockingWatch
from nexus.etcd.errors import EtcdError
from nexus.etcd.keys import Keys
from nexus.etcd.operations import Get
from nexus.etcd.results import KeyValue
from nexus.etcd_settings.document import SettingsKey
from nexus.observe.logs import get_logger
from nexus.settings.changes import changes_between
from nexus.settings.errors import SettingsError
from nexus.settings.place import Document

S = TypeVar("S")
_LOOK_S: Final = 0.25
_AGAIN_S: Final = 5.0
_JOIN_S: Final = 2.0
log = get_logger(__name__)


class SettingsFollower(Generic[S]):
    """One thread for one part. `load` makes its settings of a document, with the same flags."""

    def __init__(
        self,
        key: SettingsKey,
        load: Callable[[Document], S],
        sections: Mapping[str, type],
        *,
        again_s: float = _AGAIN_S,
    ) -> None:
        self._key, self._load, self._sections = key, load, sections
        self._again_s = again_s
        self._stop = threading.Event()
        self._looked_at = 0  # the revision
        self._put_at: int | None = 0  # when the document was put that was there; None: it was gone
        self._was_away = False

    @contextmanager
    def __call__(self, started_with: S, take_up: Callable[[S], None]) -> Iterator[None]:
        """Follow until the block ends. `take_up` runs in the follower's thread."""
        reckoning = Reckoning(started_with, self._sections, take_up)
        thread = threading.Thread(target=self._run, args=(reckoning,), name="settings", daemon=True)
        self._stop.clear()
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(_JOIN_S)

    def _run(self, reckoning: Reckoning[S]) -> None:
        while not self._stop.is_set():
            try:
                with BlockingClient(self._key.address.config()) as client:
                    self._follow(client, reckoning)
            except EtcdError as error:  # a password that changed, or no etcd for too long
                self._away(error)
                self._stop.wait(self._again_s)

    def _follow(self, client: BlockingClient, reckoning: Reckoning[S]) -> None:
        """Watch, then ask what is there now: nothing that was put in between is missed."""
        self._looked_at = 0  # revisions of before mean nothing in an etcd that was made anew
        with client.watch(self._key.key) as watch:
            now = client.range(Get(Keys(self._key.key)))
            self._look(now.first, now.revision, reckoning)
            self._was_away = False
            self._watch(watch, reckoning)

    def _watch(self, watch: BlockingWatch, reckoning: Reckoning[S]) -> None:
        while not self._stop.is_set():
            batch = watch.next(_LOOK_S)
            if batch is not None and batch.events:
                last = batch.events[-1]
                self._look(None if last.deleted else last.item, batch.revision, reckoning)

    def _look(self, found: KeyValue | None, revision: int, reckoning: Reckoning[S]) -> None:
        """What the key holds at a revision; the watch may tell once more what was asked for."""
        put_at = None if found is None else found.mod_revision
        if revision <= self._looked_at or put_at == self._put_at:
            return
        self._looked_at, self._put_at = revision, put_at
        if found is None:
            log.warning("the settings are gone; going on with those of before", key=str(self._key))
            return
        try:
            reckoning.hear(self._load(self._key.document(found)))
        except SettingsError as error:
            log.warning("the settings have a mistake; going on with those before", why=str(error))

    def _away(self, error: NexusError) -> None:
        if not self._was_away:
            self._was_away = True
            log.warning("the settings cannot be followed; trying again", why=str(error))


class Reckoning(Generic[S]):
    """What a part runs with, held against what it hears; no I/O but the log."""

    def __init__(
        self, started_with: S, sections: Mapping[str, type], take_up: Callable[[S], None]
    ) -> None:
        self._start = self._last = started_with
        self._sections, self._take_up = sections, take_up
        self._pending: dict[str, str] = {}

    def hear(self, settings: S) -> None:
        """A new version: take up what may change, and tell what waits for a restart."""
        live = [c for c in changes_between(self._last, settings, self._sections) if c.live]
        self._last = settings
        for change in live:
            log.info("a setting changed", setting=change.name, to=change.after, was=change.before)
        if live:
            self._take_up(settings)
        waiting = [c for c in changes_between(self._start, settings, self._sections) if not c.live]
        for change in waiting:
            if self._pending.get(change.name) != change.after:
                log.warning(
                    "a setting changed that counts after a restart",
                    setting=change.name,
                    to=change.after,
                    runs_with=change.before,
                )
        self._pending = {change.name: change.after for change in waiting}
