"""Archives of CSV straight into the tables, by the same functions as the stream's readings."""

from nexus.pipeline.backfill.csv_source import register
from nexus.pipeline.backfill.run import Progress, Totals, run_backfill

__all__ = ["Progress", "Totals", "register", "run_backfill"]
