"""`nexus queue dlq replay`: puts dead letters back to where they came from.

A letter is deleted only after it is safely back, piece by piece: a replay that is interrupted loses
nothing, and repeats at most one piece when it is run again.
"""

from itertools import islice
from typing import Annotated, Final

import typer
from confluent_kafka import Message, Producer

from nexus.cli.confirm import Yes, confirm
from nexus.cli.kafka import Bounds, KafkaProblem, explain
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json
from nexus.cli.queue.dlq_letters import DeadQueue, Queue, dead_queue, own_headers, told
from nexus.cli.queue.dlq_purge import delete_before

app = single_app()

_PIECE: Final = 500
_FLUSH_SECONDS: Final = 60.0


@app.command()
def replay(
    *,
    most: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="At most so many.")
    ] = None,
    yes: Yes = False,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """Put dead letters back into their queue, oldest first, with their keys and headers.

    Safe to interrupt and to run again: nothing is lost, and at most a few come twice.

    \b
    Examples:
      nexus queue dlq replay --queue kafka://127.0.0.1:9092/jobs
      nexus queue dlq replay --max 10 --yes
    """
    dead, failures = dead_queue(queue), Failures()
    bounds = dead.bounds(failures)
    waiting = sum(end - start for start, end in bounds.values())
    wanted = waiting if most is None else min(most, waiting)
    if wanted:
        confirm(f"Put {wanted} dead letters back into {dead.url.topic}?", yes)
    back = 0
    for number, (start, end) in bounds.items():
        back += _replay(dead, number, Bounds(start, min(end, start + wanted - back)))
    if json:
        print_json({"replayed": back})
    else:
        print(f"{back} dead letters are back in {dead.url.topic}")
    return failures.exit_code


def _replay(dead: DeadQueue, number: int, bounds: Bounds) -> int:
    settings = {"bootstrap.servers": dead.cluster.bootstrap, "enable.idempotence": True}
    producer = Producer({**settings, "log_level": 0})
    letters = dead.letters({number: bounds})
    back = 0
    while piece := list(islice(letters, _PIECE)):
        _send(producer, dead, piece)
        delete_before(dead, {number: (piece[-1].offset() or 0) + 1})
        back += len(piece)
    return back


def _send(producer: Producer, dead: DeadQueue, piece: list[Message]) -> None:
    """Send letters to the topics they came from; returns when all are safe."""
    failed: list[str] = []
    for letter in piece:
        producer.produce(
            told(letter).get("topic") or dead.url.topic,
            letter.value(),
            letter.key(),
            headers=own_headers(letter),
            on_delivery=lambda error, _: failed.append(explain(error)) if error else None,
        )
    if producer.flush(_FLUSH_SECONDS) or failed:
        why = failed[0] if failed else "no answer in time"
        raise KafkaProblem(f"dead letters could not be put back, and stay: {why}")
