"""Going through a source: nothing again after a restart, a base before the first reading."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from nexus.streamer.checkpoint import Pass, Progress, State
from nexus.streamer.pacing import FlatOut, Grant, Granted
from nexus.streamer.parcels import Piece
from nexus.streamer.passes import Hooks, Passes, PassOptions
from support.queues import ListSource

T0 = 1_700_000_000_000_000


@dataclass
class World:
    """What passes ask of those around them, with a clock that only moves when somebody sleeps."""

    state: State = field(default_factory=State)
    options: PassOptions = field(default_factory=PassOptions)
    now: float = 1000.0
    batch: int = 0
    saved: list[Pass] = field(default_factory=list)
    safe_waits: int = 0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def persist(self) -> None:
        current = self.state.current
        self.saved.append(Pass(current.number, current.base_us, current.origin_us))

    async def wait_safe(self) -> None:
        self.safe_waits += 1

    def hooks(self) -> Hooks:
        def pacer() -> Any:
            if self.batch:
                return Granted(Grant(self.batch, 1.0), lambda: self.now, self.sleep)
            return FlatOut()

        return Hooks(
            pacer,
            self.persist,
            self.wait_safe,
            lambda: int(self.now * 1e6),
            lambda: self.now,
            self.sleep,
        )

    def pieces(self, source: ListSource, most: int = 1000) -> list[Piece]:
        async def collect() -> list[Piece]:
            found: list[Piece] = []
            pieces = Passes(source, self.state, self.options, self.hooks()).pieces()
            async for piece in pieces:
                found.append(piece)
                if len(found) >= most:
                    break
            await pieces.aclose()  # type: ignore[attr-defined]
            return found

        return asyncio.run(collect())


def values(pieces: list[Piece]) -> list[int]:
    return [int(v) for p in pieces for v in p.table.column("source_value").to_pylist()]


def test_a_source_is_gone_through_once() -> None:
    pieces = World().pieces(ListSource(25))
    assert values(pieces) == list(range(25))
    assert [p.progress for p in pieces] == [Progress("numbers", {"next": n}) for n in (10, 20, 25)]


def test_a_restart_goes_on_behind_the_last_block() -> None:
    world = World(State(streams={"numbers": Progress("numbers", {"next": 20})}))
    source = ListSource(25)
    assert values(world.pieces(source)) == list(range(20, 25))
    assert source.asked[0]["numbers"].state == {"next": 20}


def test_a_restart_goes_on_in_the_middle_of_a_block() -> None:
    world = World(State(streams={"numbers": Progress("numbers", {"next": 10}, 7)}))
    pieces = world.pieces(ListSource(25))
    assert values(pieces) == list(range(17, 25))


def test_a_restart_goes_on_whatever_the_blocks_are_now() -> None:
    world = World(State(streams={"numbers": Progress("numbers", {}, 17)}))
    pieces = world.pieces(ListSource(25, block_rows=4))
    assert values(pieces) == list(range(17, 25))
    assert pieces[-1].progress == Progress("numbers", {"next": 25})


def test_any_piece_is_a_place_to_go_on() -> None:
    """Stop after every piece in turn: what follows is always exactly the rest."""
    for stop in range(1, 9):
        first = World(batch=4)
        sent = first.pieces(ListSource(25), most=stop)
        state = State()
        for piece in sent:
            assert piece.progress is not None
            state.advance(piece.progress)
        rest = World(state).pieces(ListSource(25, block_rows=7))
        assert values(sent) + values(rest) == list(range(25)), stop


def test_the_base_is_on_disk_before_the_first_piece() -> None:
    world = World(options=PassOptions(restamp=True))
    pieces = world.pieces(ListSource(25), most=1)
    assert world.saved == [Pass(0, 1_000_000_000, T0)]
    assert pieces[0].shift_us == 1_000_000_000 - T0


def test_a_restart_keeps_the_base() -> None:
    state = State(Pass(4, 77, T0), {"numbers": Progress("numbers", {"next": 20})})
    world = World(state, PassOptions(restamp=True))
    assert {p.shift_us for p in world.pieces(ListSource(25))} == {77 - T0}
    assert world.saved == []


def test_each_pass_of_a_loop_has_a_base_of_its_own_and_waits_for_the_last() -> None:
    world = World(options=PassOptions(loop=True, restamp=True, pass_s=3.0))
    pieces = world.pieces(ListSource(10), most=3)
    assert [p.shift_us for p in pieces] == [int((1000.0 + 3 * n) * 1e6) - T0 for n in range(3)]
    assert world.safe_waits == 2
    assert world.state.current.number == 2


def test_a_pass_never_goes_back_before_the_last_ones_times() -> None:
    ahead = int(5000e6)
    world = World(State(last_stamp_us=ahead), PassOptions(restamp=True))
    (piece,) = world.pieces(ListSource(10))
    assert piece.shift_us == ahead + 1 - T0


def test_without_restamping_nothing_is_shifted() -> None:
    assert {p.shift_us for p in World().pieces(ListSource(25))} == {None}
