"""A fleet that sends readings and remembers them, so that tables can be held against the truth.

It sends in both encodings, sends again what it sent before (mostly in the other encoding and to
another partition), holds readings back, and mixes in what must be refused. Everything follows
from a seed.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from nexus.telemetry.codec import ARROW_TYPE, JSON_TYPE
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import READING_SCHEMA, plain
from support.confluent import producer_of
from support.published import Sent, arrow_messages, json_messages
from support.readings import NOON_US, fleet

SCRAPE_US = 10_000_000
IMPOSSIBLE = -4000.0  # of a temperature
COLDEST = {"source_metric": "DCGM_FI_DEV_GPU_TEMP", "source_value": IMPOSSIBLE}
NOT_TELEMETRY: tuple[Sent, ...] = (
    (b'{"timestamp":"2025-07-18T12:00:00Z","torn', [("content-type", JSON_TYPE.encode())]),
    (b"no arrow at all", [("content-type", ARROW_TYPE.encode())]),
)


class Place(NamedTuple):
    """Where in the queue something stands."""

    partition: int
    offset: int
    row: int


class Sender:
    """Scrapes of some GPUs, every one of them new; `sent` and `refused` are what is expected."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        seed: int,
        *,
        gpus: int = 8,
        start_us: int = NOON_US,
    ) -> None:
        self.sent: list[pa.Table] = []  # every reading once
        self.refused: dict[Place, str] = {}  # and why
        self.messages = self.copies = 0
        self._topic = topic
        self._partitions = partitions
        self._chance = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._scrape = fleet(17 * gpus, gpus=gpus, seed=seed)
        self._start_us = start_us
        # An archive that is read today: by its times alone, the upkeep would remove it.
        self._ingested_us = time.time_ns() // 1000
        self._held: list[pa.Table] = []
        self._failed: list[object] = []
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._producer = self._connected(bootstrap)

    def _connected(self, bootstrap: str) -> Any:
        return producer_of(
            bootstrap,
            **{"linger.ms": 2, "delivery.timeout.ms": 180_000, "enable.idempotence": True},
        )

    def scrapes(self, count: int) -> None:
        """Send so many scrapes and what goes with them, and see that all arrive."""
        for _ in range(count):
            self._send_scrape()
        self.flush()

    def start(self, every_s: float, at_most: int | None = None) -> Self:
        """Send a scrape every so often, until `stop` or until there are so many."""
        last = None if at_most is None else len(self.sent) + at_most

        def run() -> None:
            while len(self.sent) != last and not self._stopped.wait(every_s):
                self._send_scrape()

        self._stopped.clear()
        self._thread = threading.Thread(target=run, name="sender", daemon=True)
        self._thread.start()
        return self

    def join(self) -> None:
        """Until all scrapes are sent that `start` was to send."""
        if self._thread is not None:
            self._thread.join(60)
            assert not self._thread.is_alive()

    def stop(self) -> None:
        """Send what is held back, and see that all arrived."""
        self._stopped.set()
        self.join()
        for table in self._held:
            self._send(self._encoded(table))
        self._held.clear()
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(120) == 0
        assert not self._failed, self._failed[:3]

    def expected(self) -> pa.Table:
        """Every reading once, as the table of readings must have it; after `stop`."""
        assert not self._held
        return plain(normalise(pa.concat_tables(self.sent))).select(READING_SCHEMA.names)

    def _send_scrape(self) -> None:
        table = self._next_scrape()
        self.sent.append(table)
        if self._chance.random() < 0.15:
            self._held.append(table)
        else:
            self._send(self._encoded(table))
        if self._held and self._chance.random() < 0.12:  # late, and of an older time than others
            self._send(self._encoded(self._held.pop(0)))
        if self._chance.random() < 0.3:
            again = self._chance.choice(self.sent[-50:])
            if not any(again is held for held in self._held):
                self.copies += again.num_rows
                self._send(self._encoded(again))
        if self._chance.random() < 0.15:
            self._send([self._chance.choice(NOT_TELEMETRY)], refused={0: "decode"})
        if self._chance.random() < 0.15:
            self._send_impossible()
        self._producer.poll(0)

    def _next_scrape(self) -> pa.Table:
        """The same GPUs a little later: no reading is like one before it."""
        count = self._scrape.num_rows
        moment = self._start_us + len(self.sent) * SCRAPE_US
        return with_columns(
            self._scrape,
            timestamp=moment + np.arange(count) % 8 * 1371,
            ingested=self._ingested_us + len(self.sent),
            source_value=self._scrape["source_value"].to_numpy() * self._numbers.random(count),
        )

    def _send_impossible(self) -> None:
        """A message of good readings (which are copies) with one between them that cannot be."""
        some = self._chance.choice(self.sent[-20:])
        if any(some is held for held in self._held):
            return
        table = some.slice(0, 5)
        row = self._chance.randrange(5)
        metric, value = table["source_metric"].to_pylist(), table["source_value"].to_pylist()
        metric[row], value[row] = "DCGM_FI_DEV_GPU_TEMP", IMPOSSIBLE
        self.copies += 4
        bad = with_columns(table, source_metric=metric, source_value=value)
        self._send(arrow_messages(bad), refused={row: "validate"})

    def _encoded(self, table: pa.Table) -> list[Sent]:
        if self._chance.random() < 0.5:
            return json_messages(table)
        return arrow_messages(table, readings=self._chance.choice([20, 1000]))

    def _send(self, messages: Iterable[Sent], refused: dict[int, str] | None = None) -> None:
        first = self._chance.randrange(self._partitions)

        def told(error: object, message: Any) -> None:
            if error:
                self._failed.append(error)
            for row, why in (refused or {}).items():
                self.refused[Place(message.partition(), message.offset(), row)] = why

        for number, (value, headers) in enumerate(messages):
            partition = (first + number) % self._partitions
            self._producer.produce(self._topic, value, None, partition, told, headers=headers)
            self.messages += 1


def with_columns(table: pa.Table, **columns: Sequence[object] | np.ndarray | int) -> pa.Table:
    """The table with some columns replaced; one number is for all rows."""
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        kind = table.schema.field(name)
        full = [values] * table.num_rows if isinstance(values, int) else values
        table = table.set_column(place, kind, pa.array(full, kind.type))
    return table
