"""GPU fleet telemetry: a durable partitioned queue and the pipeline around it."""

__version__ = "0.1.0"
