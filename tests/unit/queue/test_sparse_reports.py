"""Which messages of a batch are reported: enough to know of all, and few."""

from nexus.queue.kafka_publisher import _last_ones
from nexus.queue.port import Message


def test_the_last_message_to_each_partition_speaks_for_those_before_it() -> None:
    messages = [Message(b"", partition=p) for p in (0, 1, 0, 2, 1, 0)]
    assert _last_ones(messages) == {3, 4, 5}


def test_a_message_that_chooses_its_own_partition_speaks_for_itself() -> None:
    messages = [
        Message(b"", partition=0),
        Message(b"", key=b"k"),
        Message(b"dead", dead=True),
        Message(b"", partition=0),
    ]
    assert _last_ones(messages) == {1, 2, 3}
