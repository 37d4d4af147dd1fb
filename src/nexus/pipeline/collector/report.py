"""What a collector says of itself: its health, its status for programs, a summary for the end."""

from __future__ import annotations

from typing import Any

from nexus.pipeline.collector.progress import Held, Phase, StoreView, View


def is_stale(view: View, stale_after_s: float) -> bool:
    """Whether no batch has ended for a while though something waits."""
    if view.phase is not Phase.RUNNING or not view.has_lag:
        return False
    last = view.ended_at if view.ended_at is not None else view.since
    return view.at - max(last, view.since) > stale_after_s


def health_of(view: View, stale_after_s: float) -> tuple[bool, dict[str, Any]]:
    """Whether all is well, and why not. One that stands by is well: that is its work."""
    stale = is_stale(view, stale_after_s)
    status = "stale" if stale else view.phase.value
    if view.phase is Phase.RUNNING and view.problem:
        status = "queue away" if view.queue_problem else "failing"
        status = "lagging" if view.is_lagging else status
    well = status in (Phase.RUNNING.value, Phase.STANDBY.value)
    return well, {
        "status": status,
        "live": True,
        "ready": view.phase is Phase.RUNNING and well,
        "problem": view.problem or view.note,
        "lag_messages": view.lag,
        "seconds_since_commit": _since(view),
        "batches": view.total("batches"),
        "stores": {store.url: store.problem or "well" for store in view.stores},
        "jobs": {name: chore.problem or "well" for name, chore in view.chores.items()},
    }


def status_of(view: View) -> dict[str, Any]:
    """One line of `--json`, and the answer of GET /api/v1/status."""
    return {
        "phase": view.phase.value,
        "note": view.note,
        "problem": view.problem,
        "seconds": round(view.at - view.began_at, 3),
        "readings": view.total("readings"),
        "rate": round(view.rate, 1),
        "lag_messages": view.lag,
        "batch_seconds": None if view.batch_s is None else round(view.batch_s, 3),
        "batches": view.total("batches"),
        "quarantined": view.total("quarantined"),
        "duplicates": view.total("duplicates"),
        "late": view.total("late"),
        "seconds_since_commit": _since(view),
        "stores": [{**_store(store), "lag_messages": view.lag_of(store)} for store in view.stores],
        **({} if view.held is None else {"queue": _queue(view.held)}),
        "jobs": {
            name: {"runs": c.runs, "seconds": round(c.seconds, 3), "problem": c.problem, **c.facts}
            for name, c in view.chores.items()
        },
    }


def summary_of(view: View) -> str:
    """The run in one line."""
    seconds = view.at - view.began_at
    batches = view.total("batches")
    parts = [f"{view.total('readings'):,} readings stored in {seconds:.1f} s, {batches:,} batches"]
    others = [(name, view.total(name)) for name in ("duplicates", "quarantined")]
    parts += [f"{count:,} {name}" for name, count in others if count]
    if view.held is not None and view.held.expired:
        parts.append(f"{view.held.expired:,} messages expired in the queue")
    if view.lag:
        parts.append(f"{view.lag:,} messages wait for the next start")
    return ", ".join(parts)


def _queue(held: Held) -> dict[str, Any]:
    return {
        "waiting_messages": sum(held.waiting.values()),
        "oldest_seconds": None if held.oldest_s is None else round(held.oldest_s, 3),
        "taken_messages": held.taken,
        "expired_messages": held.expired,
        "conflicts": held.conflicts,
        "database_bytes": held.db_bytes,
        "database_used_bytes": held.in_use_bytes,
        "quota_bytes": held.quota_bytes,
    }


def _store(store: StoreView) -> dict[str, Any]:
    return {
        "store": store.url,
        "batch": store.number if store.number >= 0 else None,
        "version": store.version,
        "readings": store.readings,
        "readings_last_batch": store.readings_last,
        "replayed": store.replayed,
        "failures": store.failures,
        "problem": store.problem,
    }


def _since(view: View) -> float | None:
    return None if view.ended_at is None else round(view.at - view.ended_at, 3)
