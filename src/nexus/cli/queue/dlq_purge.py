"""`nexus queue dlq purge`: throws dead letters away."""

from collections.abc import Mapping

from confluent_kafka import TopicPartition

from nexus.cli.confirm import Yes, confirm
from nexus.cli.kafka import REQUEST_TIMEOUT_S, KafkaProblem, collect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json
from nexus.cli.queue.dlq_letters import DeadQueue, Queue, dead_queue

app = single_app()


@app.command()
def purge(*, yes: Yes = False, queue: Queue = None, json: JsonFlag = False) -> int:
    """Delete the dead letters that are there now; those that come meanwhile stay.

    \b
    Examples:
      nexus queue dlq purge --queue kafka://127.0.0.1:9092/jobs
      nexus queue dlq purge --yes --json
    """
    dead, failures = dead_queue(queue), Failures()
    bounds = {number: one for number, one in dead.bounds(failures).items() if one.start < one.end}
    count = sum(end - start for start, end in bounds.values())
    if count:
        confirm(f"Delete {count} dead letters of {dead.topic}?", yes)
        delete_before(dead, {number: one.end for number, one in bounds.items()})
    if json:
        print_json({"purged": count})
    else:
        print(f"{count} dead letters of {dead.topic} were deleted")
    return failures.exit_code


def delete_before(dead: DeadQueue, ends: Mapping[int, int]) -> None:
    """Delete the letters of partitions before offsets; KafkaProblem where that fails."""
    wanted = [TopicPartition(dead.topic, number, end) for number, end in ends.items()]
    futures = dead.cluster.admin.delete_records(wanted, request_timeout=REQUEST_TIMEOUT_S)
    failures = Failures()
    collect(futures, failures, lambda p: f"partition {p.partition} of {p.topic}")
    if failures.count:
        raise KafkaProblem("not all dead letters could be deleted")
