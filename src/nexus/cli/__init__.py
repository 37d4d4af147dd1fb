"""The `nexus` command: one file a command, each imported only when it runs."""

from nexus.cli.entry import main

__all__ = ["main"]
