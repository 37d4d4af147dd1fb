"""A checkpoint is read back as it was written, by one streamer at a time."""

import json
from pathlib import Path

import pytest

from nexus.streamer.checkpoint import Pass, Progress, State, StateDirectory, state_directory
from nexus.streamer.errors import StateDamaged, StateInUse


def test_a_state_survives_a_restart(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path / "s")
    assert first.open({"source": "x"}) == State()
    state = State(Pass(3, 100, 40), last_stamp_us=140, spool_head=9, partitions=12)
    state.advance(Progress("a.csv", {"offset": 10, "line": 2}, 5))
    first.write(first.encode(state))
    first.close()
    second = StateDirectory(tmp_path / "s")
    again = second.open({})
    second.close()
    assert again == state
    assert again.current.shift_us == 60
    assert again.positions()["a.csv"].state == {"offset": 10, "line": 2}
    assert again.skips() == {"a.csv": 5}


def test_a_place_without_a_state_is_the_beginning_and_so_many_readings_on() -> None:
    state = State(streams={"a.csv": Progress("a.csv", {}, 7)})
    assert state.positions() == {}
    assert state.skips() == {"a.csv": 7}


def test_a_new_pass_begins_at_the_beginning_without_a_base() -> None:
    state = State(Pass(0, 100, 40), {"a": Progress("a", {"offset": 1})})
    state.next_pass()
    assert state.current == Pass(1)
    assert state.streams == {}
    assert state.current.shift_us is None


def test_two_streamers_cannot_share_a_state(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path)
    first.open({})
    with pytest.raises(StateInUse, match="another streamer"):
        StateDirectory(tmp_path).open({})
    first.close()
    second = StateDirectory(tmp_path)
    second.open({})
    second.close()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"version": 9}', "no json"])
def test_a_damaged_checkpoint_is_one_clear_error(tmp_path: Path, text: str) -> None:
    directory = StateDirectory(tmp_path)
    directory.file.write_text(text)
    with pytest.raises(StateDamaged, match=r"checkpoint\.json: not a checkpoint"):
        directory.open({})
    directory.close()


def test_a_checkpoint_says_what_it_is_of(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    directory.open({"source": "two files"})
    directory.write(directory.encode(State()))
    assert json.loads(directory.file.read_text())["source"] == "two files"
    directory.close()


def test_each_source_queue_and_shard_has_a_place_of_its_own(tmp_path: Path) -> None:
    base = ("csv:///data/a.csv", "kafka://h:1/t", "0/2")
    others = [
        ("csv:///data/b.csv", *base[1:]),
        (base[0], "kafka://h:1/u", base[2]),
        (*base[:2], "1/2"),
    ]
    paths = {state_directory(tmp_path, *names).path for names in [base, *others]}
    assert len(paths) == 4
    assert all("data-" in path.name for path in paths)
