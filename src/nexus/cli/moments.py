"""Points in time as people give them: `2025-07-18T20:42:34Z`, `1h` (ago), or epoch milliseconds."""

from datetime import UTC, datetime

from nexus.settings.errors import SettingsError
from nexus.settings.units import parse_duration_ms

_EXAMPLES = "a time such as 2025-07-18T20:42:34Z, 1h (ago) or 1752871354000 (epoch ms)"


def parse_moment(text: str, flag: str, now_ms: int) -> int:
    """Epoch milliseconds; a time without a zone is UTC."""
    if text.isdecimal() and len(text) <= 15:
        return int(text)
    try:
        return now_ms - parse_duration_ms(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(f'flag {flag}: found "{text}", expected {_EXAMPLES}') from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def format_moment(timestamp_ms: int) -> str | None:
    """UTC with milliseconds; None for a message without a time or beyond the calendar."""
    if timestamp_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
