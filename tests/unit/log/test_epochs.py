"""Leader epochs: what followers ask for after a change of leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.log.epochs import LeaderEpochs
from support.logs import append, make_batch, open_log, values


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    epochs = LeaderEpochs.load(tmp_path)
    for epoch, offset in ((2, 10), (3, 20), (5, 30)):
        epochs.note(epoch, offset)
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(5, (5, 40)), (4, (3, 30)), (3, (3, 30)), (2, (2, 20)), (1, (1, 10)), (6, (-1, -1))],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(
    epochs: LeaderEpochs, asked: int, answer: tuple[int, int]
) -> None:
    assert epochs.end_for(asked, 40) == answer


def test_a_log_without_epochs_knows_none(tmp_path: Path) -> None:
    assert LeaderEpochs.load(tmp_path).end_for(0, 10) == (-1, -1)


def test_epochs_come_back_from_their_file(epochs: LeaderEpochs, tmp_path: Path) -> None:
    epochs.save()
    assert epochs.path.read_text() == "0\n3\n2 10\n3 20\n5 30\n"
    assert LeaderEpochs.load(tmp_path).entries == epochs.entries


@pytest.mark.parametrize("content", ["", "1\n0\n", "0\n2\n1 1\n", "0\nx\n", "0\n2\n3 1\n2 5\n"])
def test_a_damaged_file_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(content)
    assert LeaderEpochs.load(tmp_path).entries == ()


def test_cutting_either_end_forgets_what_lies_beyond(epochs: LeaderEpochs) -> None:
    epochs.cut_end(30)
    assert list(epochs.entries) == [(2, 10), (3, 20)]
    epochs.cut_start(25)
    assert list(epochs.entries) == [(3, 25)]


def test_an_epoch_that_wrote_nothing_gives_way(epochs: LeaderEpochs) -> None:
    epochs.note(6, 30)
    assert epochs.entries == ((2, 10), (3, 20), (6, 30))


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_knows_its_epochs_again_even_without_the_file(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "p")
    for epoch in (0, 0, 4):
        append(log, make_batch(values(b"v")), leader_epoch=epoch)
    log.close()
    log.leader_epochs.path.unlink()
    log = open_log(tmp_path / "p", clean=clean, recovery_point=3)
    assert log.end_for_epoch(4) == (4, 3)
    assert log.end_for_epoch(0) == (0, 2)
