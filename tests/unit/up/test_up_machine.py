"""The supervisor's decisions: events in, actions out, with the clock held by the test."""

from __future__ import annotations

from collections.abc import Sequence

from nexus.up.events import (
    Action,
    Begin,
    Died,
    Ended,
    Event,
    Exited,
    Kill,
    Over,
    Overdue,
    Ready,
    Settled,
    Slow,
    Start,
    Stop,
    Stopping,
    Terminate,
    Tick,
    WasReady,
)
from nexus.up.machine import HURRIED_S, House, Part, Phase, Rules, decide, house_of

RULES = Rules(restart_s=1.0, restart_max_s=8.0, steady_s=60.0, slow_s=45.0, stop_s=10.0)
PARTS = (
    Part("broker", stop_by=0.9),
    Part("collector", stop_by=0.7),
    Part("streamer", needs=("broker",), stop_by=0.2, may_end=True),
    Part("gateway", needs=("broker",), stop_by=0.8),
)


class Story:
    """A house, and a clock that the test moves."""

    def __init__(self, parts: Sequence[Part] = PARTS) -> None:
        self.house: House = house_of(parts, RULES)
        self.now = 100.0

    def on(self, event: Event, after: float = 0.0) -> list[Action]:
        self.now += after
        self.house, actions = decide(self.house, event, self.now)
        return actions

    def tick(self) -> list[Action]:
        """At the moment that the machine asked for."""
        due = self.house.next_due
        assert due is not None
        return self.on(Tick(), max(0.0, due - self.now))

    def phases(self) -> dict[str, Phase]:
        return {name: life.phase for name, life in self.house.lives.items()}


def all_ready() -> Story:
    story = Story()
    story.on(Begin())
    for name in ("broker", "collector", "streamer", "gateway"):
        story.on(Ready(name), 1.0)
    assert set(story.phases().values()) == {Phase.READY}
    return story


# Starting


def test_what_needs_nobody_starts_at_once_and_the_rest_when_its_needs_are_ready() -> None:
    story = Story()
    assert story.on(Begin()) == [Start("broker"), Start("collector")]
    assert story.on(Ready("broker"), 0.5) == [
        WasReady("broker", 0.5),
        Start("streamer"),
        Start("gateway"),
    ]


def test_all_is_settled_when_the_last_part_is_ready_and_told_once() -> None:
    story = Story()
    story.on(Begin())
    for name in ("broker", "streamer", "gateway"):
        assert Settled() not in story.on(Ready(name))
    assert Settled() in story.on(Ready("collector"))
    assert Settled() not in story.on(Exited("collector", 1))


def test_a_part_that_died_does_not_keep_the_address_from_being_told() -> None:
    story = Story()
    story.on(Begin())
    for name in ("broker", "streamer", "gateway"):
        story.on(Ready(name))
    assert Settled(down=("collector",)) in story.on(Exited("collector", 1))


def test_a_slow_start_is_told_once_and_not_waited_for() -> None:
    story = Story()
    story.on(Begin())
    for name in ("broker", "streamer", "gateway"):
        story.on(Ready(name))
    assert story.tick() == [Slow("collector", 45.0), Settled(down=("collector",))]
    assert story.house.next_due is None
    assert story.on(Ready("collector"), 5) == [WasReady("collector", 50.0)]


def test_a_ready_that_comes_too_late_counts_for_nothing() -> None:
    story = all_ready()
    story.on(Exited("gateway", -9))
    assert story.on(Ready("gateway")) == []
    assert story.phases()["gateway"] is Phase.RESTING


# Dying


def test_a_part_that_dies_is_started_again_after_a_rest_and_the_others_go_on() -> None:
    story = all_ready()
    assert story.on(Exited("collector", -9)) == [Died("collector", -9, deaths=1, again_s=1.0)]
    assert story.on(Tick(), 0.9) == []
    assert story.tick() == [Start("collector")]
    assert story.on(Ready("collector"), 2.0) == [WasReady("collector", 2.0, again=True)]
    others = [story.phases()[name] for name in ("broker", "streamer", "gateway")]
    assert others == [Phase.READY] * 3
    assert story.house.lives["collector"].restarts == 1


def test_rests_double_up_to_a_bound_while_it_keeps_dying() -> None:
    story = all_ready()
    rests = []
    for _ in range(6):
        (died,) = story.on(Exited("gateway", 1))
        assert isinstance(died, Died)
        rests.append(died.again_s)
        assert story.tick() == [Start("gateway")]
    assert rests == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_thousand_deaths_are_no_overflow() -> None:
    assert RULES.delay_s(5_000) == RULES.restart_max_s


def test_being_ready_for_a_moment_does_not_make_up_for_deaths() -> None:
    story = all_ready()
    story.on(Exited("gateway", 1))
    story.tick()
    story.on(Ready("gateway"), 1.0)
    (died,) = story.on(Exited("gateway", 1), 59.0)
    assert died == Died("gateway", 1, deaths=2, again_s=2.0)


def test_having_run_well_for_a_while_does() -> None:
    story = all_ready()
    story.on(Exited("gateway", 1))
    story.tick()
    story.on(Ready("gateway"), 1.0)
    (died,) = story.on(Exited("gateway", 1), 60.0)
    assert died == Died("gateway", 1, deaths=1, again_s=1.0)


def test_a_part_is_started_again_also_while_what_it_needs_is_down() -> None:
    story = all_ready()
    story.on(Exited("broker", -9))
    story.on(Exited("streamer", 1), 0.5)
    assert story.tick() == [Start("broker")]
    assert story.tick() == [Start("streamer")]


def test_a_broker_that_cannot_start_holds_back_those_who_need_it_and_nobody_else() -> None:
    story = Story()
    story.on(Begin())
    story.on(Exited("broker", 1))
    assert story.phases()["streamer"] is Phase.HELD
    assert story.on(Ready("collector")) != []
    story.tick()
    assert Start("streamer") in story.on(Ready("broker"))


def test_a_streamer_whose_source_ends_is_done_and_not_started_again() -> None:
    story = all_ready()
    assert story.on(Exited("streamer", 0)) == [Ended("streamer", asked=False)]
    assert story.house.next_due is None


def test_a_server_that_ends_without_an_error_has_died_all_the_same() -> None:
    story = all_ready()
    assert story.on(Exited("broker", 0)) == [Died("broker", 0, deaths=1, again_s=1.0)]


# Stopping


def test_parts_are_stopped_in_order_each_after_the_one_before() -> None:
    story = all_ready()
    assert story.on(Stop()) == [Stopping(10.0), Terminate("streamer")]
    assert story.on(Exited("streamer", 0)) == [
        Ended("streamer", asked=True),
        Terminate("collector"),
    ]
    assert story.on(Exited("collector", 0))[1:] == [Terminate("gateway")]
    assert story.on(Exited("gateway", 0))[1:] == [Terminate("broker")]
    assert story.on(Exited("broker", 0))[1:] == [Over()]
    assert story.house.is_over


def test_a_part_that_will_not_end_is_killed_when_its_share_of_the_time_is_up() -> None:
    story = all_ready()
    began = story.now
    story.on(Stop())
    assert story.tick() == [Overdue("streamer"), Kill("streamer")]
    assert story.now == began + 2.0
    story.on(Exited("streamer", -9))
    assert story.tick() == [Overdue("collector"), Kill("collector")]
    assert story.now == began + 7.0
    assert story.house.lives["collector"].overdue


def test_everything_has_ended_within_the_time_even_if_nobody_listens() -> None:
    story = all_ready()
    began = story.now
    story.on(Stop())
    while not story.house.is_over:
        for action in story.tick():
            if isinstance(action, Kill):
                story.on(Exited(action.name, -9))
    assert story.now - began <= RULES.stop_s


def test_what_rests_or_waits_has_nothing_to_stop() -> None:
    story = Story()
    story.on(Begin())
    story.on(Exited("broker", 1))
    assert story.on(Stop()) == [Stopping(10.0), Terminate("collector")]
    assert story.on(Exited("collector", 0)) == [Ended("collector", asked=True), Over()]


def test_a_stop_during_the_start_calls_nobody_slow() -> None:
    story = Story()
    story.on(Begin())
    story.on(Ready("broker"))
    assert story.on(Stop()) == [Stopping(10.0), Terminate("streamer")]
    assert story.on(Tick(), 1.9) == []
    assert story.tick() == [Overdue("streamer"), Kill("streamer")]


def test_a_part_that_dies_during_the_stop_is_not_started_again() -> None:
    story = all_ready()
    story.on(Stop())
    assert story.on(Exited("gateway", -11)) == [Ended("gateway", asked=True)]
    assert Start("gateway") not in story.on(Tick(), 60.0)


def test_a_second_stop_kills_all_but_the_last_which_is_asked() -> None:
    story = all_ready()
    story.on(Stop())
    assert story.on(Stop()) == [
        Terminate("broker"),
        Kill("collector"),
        Kill("streamer"),
        Kill("gateway"),
    ]
    for name in ("collector", "streamer", "gateway"):
        story.on(Exited(name, -9))
    began = story.now
    assert story.tick() == [Overdue("broker"), Kill("broker")]
    assert story.now == began + HURRIED_S


def test_a_third_stop_asks_nobody() -> None:
    story = all_ready()
    for _ in range(2):
        story.on(Stop())
    assert Kill("broker") in story.on(Stop())


def test_with_nothing_running_a_stop_is_the_end() -> None:
    story = Story([Part("broker")])
    story.on(Begin())
    story.on(Exited("broker", 1))
    assert story.on(Stop()) == [Stopping(10.0), Over()]
