"""Tables of these tests need not outlive a power cut, and waiting for the disk takes most time."""

import pytest

from nexus.lake import files, table


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "sync", lambda path: None)
    monkeypatch.setattr(table, "sync", lambda path: None)
