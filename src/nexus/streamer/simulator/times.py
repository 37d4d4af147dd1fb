"""Times as readings and the truth write them."""

from datetime import UTC, datetime


def timestamp_text(time_ms: int) -> str:
    """RFC 3339 in UTC; milliseconds only where there are some."""
    seconds, rest = divmod(time_ms, 1_000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:03d}Z" if rest else f"{text}Z"
