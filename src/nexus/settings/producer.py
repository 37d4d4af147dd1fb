"""How Nexus's own producers gather messages: what `performance` says, where somebody said it.

A producer has defaults that suit what it sends, so the section's own do not replace them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from nexus.settings.broker import read_inputs
from nexus.settings.options import Source, Strength, resolve
from nexus.settings.place import Config
from nexus.settings.sections import PerformanceSection


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """`performance.linger_time` and `performance.batch_size`; None where nobody set them."""

    linger_ms: int | None = None
    batch_bytes: int | None = None


def producer_settings(
    performance: PerformanceSection, provenance: Mapping[str, Source]
) -> ProducerSettings:
    """Of the two values, those that somebody set."""
    return ProducerSettings(
        linger_ms=performance.linger_ms if _is_given("linger_time", provenance) else None,
        batch_bytes=performance.batch_bytes if _is_given("batch_size", provenance) else None,
    )


def load_producer_settings(
    config: Config | None = None, *, environ: Mapping[str, str] | None = None
) -> ProducerSettings:
    """From `config` (or the file that NEXUS_CONFIG names) and the environment."""
    inputs = read_inputs(config, {}, os.environ if environ is None else environ)
    values, sources = resolve("performance", PerformanceSection, inputs)
    return producer_settings(PerformanceSection(**values), sources)


def _is_given(key: str, provenance: Mapping[str, Source]) -> bool:
    source = provenance.get(f"performance.{key}")
    return source is not None and source.strength is not Strength.DEFAULT
