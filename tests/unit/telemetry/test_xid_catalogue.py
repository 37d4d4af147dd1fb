"""XID events: what to do about each."""

import pytest

from nexus.telemetry.xid import XIDS, Action, describe

ACTIONS = {
    Action.RESTART_APP: [13, 31, 32, 69, 11, 25, 80, 39, 40, 41, 70, 71, 72, 94],
    Action.IGNORE: [43, 44, 63, 92, 37, 38, 66, 67, 121],
    Action.RESET_GPU: [46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158],
    Action.RESTART_HOST: [79],
    Action.CHECK_MECHANICALS: [54],
    Action.WORKFLOW: [45, 48, 74, *range(144, 151)],
    Action.DRIVER_SAYS: [154],
}


@pytest.mark.parametrize(("action", "numbers"), ACTIONS.items())
def test_each_event_asks_for_its_action(action: Action, numbers: list[int]) -> None:
    assert {describe(number).action for number in numbers} == {action}
    assert all(describe(number).description for number in numbers)


def test_the_catalogue_holds_these_events_and_no_others() -> None:
    assert sorted(XIDS) == sorted(number for numbers in ACTIONS.values() for number in numbers)


def test_an_event_that_is_not_known_asks_for_a_look() -> None:
    assert describe(9999).action is Action.INVESTIGATE
