"""A test without what it needs is skipped on a desk and fails in a build."""

from __future__ import annotations

import pytest

from support.needs import missing, need_program


def test_a_program_that_is_there_is_found() -> None:
    assert need_program("sh").endswith("/sh")


def test_a_missing_program_skips_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program is not installed"):
        need_program("no-such-program")


def test_a_missing_program_fails_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="nothing is skipped"):
        missing("no-such-program is not installed")
