"""XID events: what the driver's numbers mean and what to do about them, in our own words."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Action(StrEnum):
    """What an operator does about an event."""

    RESTART_APP = "restart the application"
    IGNORE = "ignore"
    RESET_GPU = "reset the GPU"
    RESTART_HOST = "restart the machine"
    CHECK_MECHANICALS = "check cabling and power"
    WORKFLOW = "follow a workflow"
    DRIVER_SAYS = "do what the driver says"
    INVESTIGATE = "investigate"


class Fault(StrEnum):
    """Where an event comes from."""

    APPLICATION = "application"
    MEMORY = "memory"
    LINK = "link"
    HARDWARE = "hardware"
    FIRMWARE = "firmware"
    DRIVER = "driver"
    INFORMATION = "information"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Xid:
    """One kind of event."""

    number: int
    fault: Fault
    action: Action
    description: str


def _all(
    action: Action, *events: tuple[int | range, Fault, str]
) -> list[tuple[int, Fault, Action, str]]:
    return [
        (number, fault, action, text)
        for numbers, fault, text in events
        for number in ([numbers] if isinstance(numbers, int) else numbers)
    ]


XIDS: Final[Mapping[int, Xid]] = {
    row[0]: Xid(*row)
    for row in [
        *_all(
            Action.RESTART_APP,
            (11, Fault.APPLICATION, "Commands that the GPU could not make sense of"),
            (13, Fault.APPLICATION, "A kernel failed on the GPU; hardware if many jobs meet it"),
            (25, Fault.APPLICATION, "Settings that the GPU does not allow"),
            (31, Fault.APPLICATION, "A kernel touched memory that is not its own"),
            (32, Fault.APPLICATION, "Commands that arrived damaged"),
            (range(39, 42), Fault.APPLICATION, "A copy engine failed on what it was given"),
            (69, Fault.APPLICATION, "A compute class was used in a wrong way"),
            (range(70, 73), Fault.APPLICATION, "A copy engine failed on what it was given"),
            (80, Fault.APPLICATION, "Data for the GPU arrived damaged"),
            (94, Fault.MEMORY, "A memory error that was contained to one application"),
        ),
        *_all(
            Action.IGNORE,
            (37, Fault.INFORMATION, "A note of the driver, without effect"),
            (38, Fault.INFORMATION, "A note of the driver's firmware, without effect"),
            (43, Fault.APPLICATION, "An application was stopped after its own fault"),
            (44, Fault.INFORMATION, "A graphics fault while the context was changed"),
            (63, Fault.MEMORY, "A memory row or page was set aside; it works without it"),
            (66, Fault.INFORMATION, "An illegal access by the driver, handled"),
            (67, Fault.INFORMATION, "An illegal access by the driver, handled"),
            (92, Fault.MEMORY, "Many corrected memory errors"),
            (121, Fault.LINK, "A chip-to-chip link corrected an error"),
        ),
        *_all(
            Action.RESET_GPU,
            (46, Fault.HARDWARE, "The GPU stopped to process commands"),
            (62, Fault.FIRMWARE, "The power controller of the GPU halted"),
            (64, Fault.MEMORY, "A memory row or page could not be set aside"),
            (95, Fault.MEMORY, "A memory error that hit more than one application"),
            (109, Fault.FIRMWARE, "Switching between contexts timed out"),
            (110, Fault.HARDWARE, "A security fault inside of the GPU"),
            (119, Fault.FIRMWARE, "The system processor of the GPU does not answer"),
            (120, Fault.FIRMWARE, "The system processor of the GPU failed"),
            (136, Fault.LINK, "Training a link failed"),
            (140, Fault.MEMORY, "A memory error that was not recovered from"),
            (143, Fault.HARDWARE, "The GPU did not come up as it should"),
            (155, Fault.LINK, "The links' software took them down"),
            (156, Fault.HARDWARE, "Spare resources of the GPU are used up"),
            (158, Fault.HARDWARE, "The GPU stopped on an internal timeout"),
        ),
        *_all(Action.RESTART_HOST, (79, Fault.HARDWARE, "The GPU fell off the bus")),
        *_all(Action.CHECK_MECHANICALS, (54, Fault.HARDWARE, "The GPU lacks auxiliary power")),
        *_all(
            Action.WORKFLOW,
            (45, Fault.APPLICATION, "Work was cancelled after another event; ignore unless alone"),
            (48, Fault.MEMORY, "A memory error that cannot be corrected; see what follows it"),
            (74, Fault.LINK, "A link to another GPU or switch failed"),
            (range(144, 151), Fault.LINK, "The links of a newer GPU report a fault"),
        ),
        *_all(
            Action.DRIVER_SAYS,
            (154, Fault.DRIVER, "The driver changed what it takes to recover this GPU"),
        ),
    ]
}


def describe(number: int) -> Xid:
    """What an event number means; one that is not known asks for a look."""
    return XIDS.get(number) or Xid(
        number, Fault.UNKNOWN, Action.INVESTIGATE, "An event that is not in the catalogue"
    )
