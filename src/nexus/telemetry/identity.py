"""What makes a reading this one and no other."""

from typing import Final

# What tells series apart; a reading is one moment of one series.
SERIES_COLUMNS: Final = ("uuid", "mig", "metric", "instance", "namespace", "pod", "container")
IDENTITY_COLUMNS: Final = (*SERIES_COLUMNS, "timestamp")
