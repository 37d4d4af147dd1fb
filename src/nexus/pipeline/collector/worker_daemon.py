"""The process that Spark forks its Python workers from, with their modules loaded before the fork.

A worker then starts at once, and all of them share the memory of what was loaded. For workers on
this machine only: those of a cluster may learn of Nexus only after the fork.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

from pyspark import daemon

_WORK: Final = (
    "nexus.pipeline.source.datasource",
    "nexus.pipeline.table_source",
    "nexus.pipeline.sink.writer",
    "nexus.pipeline.derive.numbered",
)
# What each kind of Spark's own processes unpickles.
_NEEDED: Final = {
    "pyspark.worker": _WORK,
    "pyspark.sql.worker.create_data_source": _WORK[:2],
    "pyspark.sql.worker.plan_data_source_read": _WORK[:2],
}


class _NoPandas:
    """Says that there is no pandas, once: pyarrow looks for it, and its loading is dear."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


def preload(kind: str) -> None:
    """Load what workers of this kind are going to need."""
    modules = (kind, *_NEEDED.get(kind, ()))
    if len(modules) > 1:
        _settle_pandas()
    for name in modules:
        importlib.import_module(name)
    # What is loaded stays: a collection that marks it would copy every page in every worker.
    gc.collect()
    gc.freeze()


def _settle_pandas() -> None:
    import pyarrow as pa  # noqa: PLC0415 - not every kind needs it

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)


if __name__ == "__main__":
    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    daemon.manager()
