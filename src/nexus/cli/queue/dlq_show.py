"""`nexus queue dlq show`: one dead letter whole."""

from nexus.cli.kafka import Bounds, KafkaProblem
from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json, printable
from nexus.cli.payload import as_json, as_text
from nexus.cli.queue.dlq_letters import Letter, Queue, dead_queue, own_headers, place_of, told

app = single_app()


@app.command()
def show(letter: Letter, *, queue: Queue = None, json: JsonFlag = False) -> int:
    """Show a dead letter: its key, headers and value, and what happened to it.

    \b
    Examples:
      nexus queue dlq show 0:17 --queue kafka://127.0.0.1:9092/jobs
      nexus queue dlq show 0:17 --json
    """
    partition, offset = place_of(letter)
    dead = dead_queue(queue)
    if partition not in dead.cluster.partitions().get(dead.topic, []):
        raise KafkaProblem(f"{dead.topic} has no partition {partition}")
    message = next(dead.letters({partition: Bounds(offset, offset + 1)}), None)
    if message is None or message.offset() != offset:
        raise KafkaProblem(f"there is no dead letter {letter} in {dead.topic}")
    headers = {name: as_json(value) for name, value in own_headers(message)}
    if json:
        document = {"letter": letter, **told(message), "headers": headers}
        print_json(document | {"key": as_json(message.key()), "value": as_json(message.value())})
        return 0
    for name, text in told(message).items():
        print(f"{name:10} {printable(text)}")
    print(f"{'key':10} {as_text(message.key())}")
    for name, value in own_headers(message):
        print(f"{'header':10} {printable(name)}={as_text(value)}")
    print(as_text(message.value()))
    return 0
