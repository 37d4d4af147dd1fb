"""`nexus streamer`: from a source of readings to the queue."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nexus.cli.config_place import loaded
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile
from nexus.settings.kinds import split_host_port
from nexus.settings.options import flags_given

app = single_app()


@app.command()
def streamer(
    *,
    config: ConfigFile = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="csv:///path/or/glob, exporter://host:9400,host:9400, nvml://,"
            " sim://?hosts=4&gpus=8&seed=1 or recording:// (or CSV_FILE).",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="kafka://host:port,host:port/topic, etcd://host:port,host:port/prefix with"
            " ?form=packed for speed, or http://host:port/topic for a proxy (or MSG_QUEUE_URL)."
            " [default: kafka://127.0.0.1:9092/gpu-telemetry]",
        ),
    ] = None,
    rate: Annotated[
        int | None, typer.Option(metavar="N", help="At most so many readings a second.")
    ] = None,
    speed: Annotated[
        str | None, typer.Option(metavar="1x", help="So many times as fast as it was recorded.")
    ] = None,
    loop: Annotated[
        bool | None, typer.Option("--loop/--no-loop", help="Begin again at the end (LOOP_MODE).")
    ] = None,
    restamp: Annotated[
        bool | None,
        typer.Option(
            "--restamp/--keep-timestamps",
            help="Give readings the time of sending. [default: restamp when looping]",
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="arrow|json", help="Many readings a message or one. [default: arrow]"),
    ] = None,
    partitioner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="murmur2 (by GPU), round-robin or module:function. [default: murmur2]",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(metavar="N", help="Readings sent together (BATCH_SIZE). [default: 10000]"),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="3s",
            help="Between two samples of a live source; of files, between two batches"
            " (STREAM_INTERVAL).",
        ),
    ] = None,
    follow: Annotated[
        bool | None, typer.Option("--follow/--no-follow", help="Wait for files to grow.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Take one of N equal shares, from 0/N to N-1/N."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The cluster's name on every reading (CLUSTER_ID)."),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Checkpoints and spool. [default: ./data/streamer]"),
    ] = None,
    spool_size: Annotated[
        str | None,
        typer.Option(metavar="1GB", help="How much waits on disk while the queue is away."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="N", help="Partitions of a queue that must be made. [default: 12]"),
    ] = None,
    message_ttl: Annotated[
        str | None,
        typer.Option(
            metavar="24h",
            help="How long a message waits in etcd before it expires (MESSAGE_TTL, in seconds or"
            " with a unit). [default: 24h]",
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Health, metrics, status and uploads."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Forget the checkpoint and the spool first.")
    ] = False,
) -> int:
    """Read GPU readings from a source and publish them, each at least once and in order.

    A restart goes on where acknowledgements stopped. While the queue is away, readings wait in a
    bounded spool on disk. The exit code is 0 only if the queue has acknowledged everything.

    \b
    Examples:
      nexus streamer --source csv:///data/dcgm.csv
      nexus streamer --source 'csv:///data/*.csv.gz' --shard 0/2 --rate 50000
      nexus streamer --source exporter://node-1:9400,node-2:9400 --interval 10s
      nexus streamer --source recording:// --loop --speed 10x
      nexus streamer --source sim://?hosts=4 --queue kafka://broker-1:9092/gpu-telemetry
      nexus streamer --source sim://?hosts=4 --queue etcd://etcd-1:2379,etcd-2:2379
    """
    given = {
        "streamer.source": ("--source", source),
        "streamer.queue": ("--queue", queue),
        "streamer.rate": ("--rate", rate),
        "streamer.speed": ("--speed", speed),
        "streamer.loop": ("--loop", loop),
        "streamer.restamp": ("--restamp", restamp),
        "streamer.encoding": ("--encoding", encoding),
        "streamer.partitioner": ("--partitioner", partitioner),
        "streamer.batch_size": ("--batch-size", batch_size),
        "streamer.interval": ("--interval", interval),
        "streamer.follow": ("--follow", follow),
        "streamer.shard": ("--shard", shard),
        "streamer.state_dir": ("--state-dir", state_dir),
        "streamer.spool_size": ("--spool-size", spool_size),
        "streamer.partitions": ("--partitions", partitions),
        "streamer.message_ttl": ("--message-ttl", message_ttl),
        "cluster.cluster_id": ("--cluster", cluster),
        **_address(http),
    }
    from nexus.settings.streamer import SECTIONS, load_streamer_settings

    flags = flags_given(given)
    settings, changes = loaded(config, partial(load_streamer_settings, flags=flags), SECTIONS)
    from nexus.streamer.main import run

    return run(settings, from_start=from_start, follow=changes)


def _address(text: str | None) -> dict[str, tuple[str, str | int | None]]:
    if text is None:
        return {}
    try:
        host, port = split_host_port(text)
    except ValueError as error:
        from nexus.settings.errors import SettingsError

        raise SettingsError(f'flag --http: found "{text}", expected {error}') from None
    return {"streamer.http_host": ("--http", host), "streamer.http_port": ("--http", port)}
