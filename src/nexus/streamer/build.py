"""From settings to an engine: which source, which pace, which encoding, which queue."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from nexus.queue.opening import open_publisher
from nexus.queue.partitioners import partitioner_named
from nexus.queue.publishing import PublisherOptions
from nexus.queue.url import EtcdUrl, PublishingUrl, parse_publishing_url
from nexus.settings.errors import SettingsError
from nexus.settings.streamer import MESSAGE_READINGS_MAX, StreamerSection, StreamerSettings
from nexus.streamer.checkpoint import state_directory
from nexus.streamer.engine import Engine, EngineOptions
from nexus.streamer.pacing import AsRecorded, FlatOut, Grant, Granted, Pacer, grant_for_rate
from nexus.streamer.parcels import Packer, Stamp
from nexus.streamer.passes import PassOptions
from nexus.streamer.repacing import Pace
from nexus.streamer.sources import FILES, kind_of, open_source
from nexus.streamer.sources.port import BLOCK_ROWS_MAX, Shard, SourceOptions

# A message of one reading has a Python object of its own: fewer of them at a time.
_JSON_ROWS: Final = 16_384
_JSON_IN_FLIGHT: Final = 32_768
_BLOCK_ROWS: Final = 65_536
_ETCD_READINGS: Final = 2_000
_JSON_LINGER_MS: Final = 100
_ARROW_LINGER_MS: Final = 1


def build_engine(
    settings: StreamerSettings, pace: Pace | None = None, *, from_start: bool = False
) -> Engine:
    """The engine that the settings describe; to be called in its event loop.

    Whoever hands over the pace may change it later.
    """
    url = settings.streamer.source
    if url is None:
        raise SettingsError(
            "there is no source: give --source URL (csv:///path, exporter://host:9400, nvml://,"
            " sim://, recording://) or set CSV_FILE"
        )
    queue = parse_publishing_url(settings.streamer.queue)
    settings = as_queue_wants(settings, queue)
    own = settings.streamer
    partitioner = partitioner_named(own.partitioner)
    shard = Shard(*own.shard)
    source = open_source(url, source_options(own, shard))
    directory = state_directory(own.state_dir, url, queue.place, str(shard))
    if from_start:
        shutil.rmtree(directory.path, ignore_errors=True)
    packer = Packer(
        own.encoding,
        partitioner,
        Stamp(settings.cluster.cluster_id, kind_of(url)),
        rows_max=min(own.batch_size, readings_max(queue)),
        now_us=lambda: time.time_ns() // 1000,
        now_s=asyncio.get_running_loop().time,
    )
    publisher = open_publisher(queue, publisher_options(settings))
    return Engine(source, publisher, packer, directory, engine_options(settings, source.live, pace))


def as_queue_wants(settings: StreamerSettings, queue: PublishingUrl) -> StreamerSettings:
    """The settings for a queue whose address says that every message is one reading in JSON."""
    if not isinstance(queue, EtcdUrl) or queue.form != "json":
        return settings
    own = settings.streamer
    if own.encoding != "json" and settings.is_given("streamer.encoding"):
        where = settings.provenance["streamer.encoding"].where
        raise SettingsError(
            f"{where}: streamer.encoding: {own.encoding} contradicts ?form=json of the queue;"
            " leave one of them out"
        )
    return replace(settings, streamer=replace(own, encoding="json"))


def readings_max(queue: PublishingUrl) -> int:
    """How many readings a message holds at most. etcd keeps thousands of requests in memory."""
    return _ETCD_READINGS if isinstance(queue, EtcdUrl) else MESSAGE_READINGS_MAX


def source_options(own: StreamerSection, shard: Shard) -> SourceOptions:
    return SourceOptions(
        shard=shard,
        interval_s=own.interval_s,
        timeout_s=own.timeout_ms / 1000,
        follow=own.follow,
        block_rows=_JSON_ROWS if own.encoding == "json" else _BLOCK_ROWS,
    )


def publisher_options(settings: StreamerSettings) -> PublisherOptions:
    own, given = settings.streamer, settings.producer
    is_json = own.encoding == "json"
    linger_ms = _JSON_LINGER_MS if is_json else _ARROW_LINGER_MS
    return PublisherOptions(
        partitions=own.partitions,
        in_flight_bytes=own.in_flight_bytes,
        in_flight_messages=_JSON_IN_FLIGHT,
        # Arrow messages come compressed; many small texts gain from it.
        compression="lz4" if is_json else "none",
        linger_ms=linger_ms if given.linger_ms is None else given.linger_ms,
        batch_bytes=given.batch_bytes,
        sparse_reports=is_json,
        cluster=settings.cluster.cluster_id,
        batch_messages=own.batch_size,
        ttl_s=own.message_ttl_s,
    )


def engine_options(
    settings: StreamerSettings, live: bool, pace: Pace | None = None
) -> EngineOptions:
    own = settings.streamer
    pacer = pacer_of(settings)
    paced = not isinstance(pacer(), FlatOut)
    # With a rate or a batch for each interval, a loop's pace is set already.
    is_granted = isinstance(pacer(), Granted)
    gather = min(own.partitions * MESSAGE_READINGS_MAX, BLOCK_ROWS_MAX)
    if own.encoding == "json":
        gather = _JSON_ROWS
    return EngineOptions(
        passes=PassOptions(own.loop, own.restamps, 0.0 if is_granted else own.interval_s),
        make_pacer=pacer if pace is None else pace.pacer,
        gather_rows=0 if live or paced else gather,
        spool_bytes=own.spool_bytes,
        partitions=own.partitions,
        away_after_s=own.away_after_ms / 1000,
        grace_s=own.grace_ms / 1000,
    )


def pacer_of(settings: StreamerSettings) -> Callable[[], Pacer]:
    """What decides the pace of these settings' source."""
    own = settings.streamer
    return make_pacer(own, own.source is not None and kind_of(own.source) in FILES)


def make_pacer(own: StreamerSection, is_files: bool) -> Callable[[], Pacer]:
    """What decides the pace: a rate, a speed, a batch for each interval, or nothing.

    A loop that gets new timestamps plays as it was recorded unless told otherwise: what it sends
    then bears the time of sending.
    """
    clock = time.monotonic
    if own.rate:
        shared = Granted(grant_for_rate(own.rate), clock)
        return lambda: shared
    if own.speed is not None:
        speed = own.speed
        return lambda: AsRecorded(speed, clock)
    if is_files and own.interval_ms is not None:
        batches = Granted(Grant(own.batch_size, own.interval_s), clock)
        return lambda: batches
    if is_files and own.loop and own.restamps:
        return lambda: AsRecorded(1.0, clock)
    return FlatOut
