"""What the streamer says of itself: its status for programs, a summary for the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nexus.streamer.engine import Engine


def status_of(engine: Engine) -> dict[str, object]:
    """The answer of GET /api/v1/status."""
    stats, outbox = engine.stats, engine.outbox
    return {
        "source": engine.source.describe(),
        "queue": outbox.mode.value,
        "state": "ended" if engine.ended else "running",
        "readings": {
            "read": stats.readings_read,
            "acknowledged": stats.readings_acknowledged,
            "unacknowledged": outbox.unacknowledged,
            "refused": stats.readings_refused,
            "lost": stats.readings_lost,
            "spooled": stats.readings_spooled,
        },
        "rejected": dict(stats.rejected),
        "messages": stats.messages_acknowledged,
        "bytes": stats.bytes_acknowledged,
        "rate": round(stats.rate(), 1),
        "lag_seconds": round(outbox.lag_s(), 3),
        "spool_bytes": stats.spool_bytes,
        "passes": stats.passes,
        "seconds": round(stats.seconds, 3),
        "resumed": engine.resumed,
        "state_dir": str(engine.path),
    }


@dataclass(frozen=True, slots=True)
class Summary:
    """How a run ended."""

    lines: tuple[str, ...]
    exit_code: int


def summary_of(engine: Engine, *, endless: bool) -> Summary:
    """A few lines for people, and 0 only if the queue holds everything there was to send."""
    stats, outbox = engine.stats, engine.outbox
    lines = [_sent_line(engine)]
    if stats.rejected:
        reasons = ", ".join(f"{count:,} {why}" for why, count in stats.rejected.most_common(5))
        lines.append(f"{stats.rows_rejected:,} rows were no readings (dead letters): {reasons}")
    if stats.readings_refused:
        lines.append(f"{stats.readings_refused:,} refused by the queue: {stats.last_refusal}")
    if stats.readings_lost:
        lines.append(f"{stats.readings_lost:,} LOST: the queue was away and the spool full")
    if engine.spool.damaged_bytes:
        lines.append(f"{engine.spool.damaged_bytes:,} bytes of the spool were damaged and LOST")
    complete = engine.ended or endless
    waiting = outbox.unacknowledged or (not outbox.is_empty)
    if waiting:
        lines.append(
            f"{outbox.unacknowledged:,} readings are not acknowledged yet;"
            " the next start goes on there"
        )
    elif not complete:
        lines.append("stopped before the end of the source; the next start goes on there")
    failed = waiting or not complete or stats.readings_refused or stats.readings_lost
    return Summary(tuple(lines), 1 if failed or engine.spool.damaged_bytes else 0)


def _sent_line(engine: Engine) -> str:
    stats = engine.stats
    if not stats.readings_acknowledged and engine.resumed and engine.ended:
        return "nothing new since the last run (--from-start sends everything again)"
    each = stats.bytes_acknowledged / max(stats.readings_acknowledged, 1)
    return (
        f"{stats.readings_acknowledged:,} readings acknowledged in {stats.seconds:.1f} s"
        f" ({stats.rate_overall:,.0f}/s), {stats.messages_acknowledged:,} messages,"
        f" {size_text(stats.bytes_acknowledged)} ({each:.1f} bytes a reading)"
    )


def size_text(size: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""
