"""The checker is evidence only if it finds every defect, and none where there is none."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest

from support.checker import EXAMPLES_MAX, Defect, Report, check
from support.history import History, Outcome, Read, Reads

PROCESSES, PARTITIONS = 3, 2


def good_run(operations: int = 30) -> tuple[History, list[Read]]:
    """Processes that take turns on two partitions, everything acknowledged and read."""
    history, reads = History(clock_us=count(0, 1000).__next__), []
    ends = [0] * PARTITIONS
    for n in range(operations):
        process, sequence = n % PROCESSES, n // PROCESSES
        partition = sequence % PARTITIONS
        history.invoke(process, sequence, partition)
        history.ok(process, sequence, partition, ends[partition])
        reads.append(Read(partition, ends[partition], process, sequence))
        ends[partition] += 1
    return history, reads


def judged(history: History, reads: Iterable[Read], min_acked: int = 1) -> Report:
    return check(history, Reads(reads), min_acked=min_acked)


def test_a_good_run_passes() -> None:
    history, reads = good_run()
    report = judged(history, reads, min_acked=30)
    assert report.passed, report
    assert not report.counts
    assert (report.invoked, report.acked, report.read) == (30, 30, 30)
    report.assert_passed()


def test_reads_in_any_order_and_more_than_once_are_no_defect() -> None:
    history, reads = good_run()
    shuffled = reads + reads[5:20]
    random.Random(1).shuffle(shuffled)
    report = judged(history, shuffled)
    assert report.passed, report
    assert report.read == 30


def test_an_acknowledged_operation_that_is_not_read_is_lost() -> None:
    history, reads = good_run()
    gone = reads.pop(7)
    report = judged(history, reads)
    assert report.counts == {Defect.LOST: 1}
    assert f"{gone.partition}@{gone.offset}" in report.examples[Defect.LOST][0]
    assert not report.passed


def test_a_lost_tail_is_lost_whole() -> None:
    history, reads = good_run()
    assert judged(history, reads[:-6]).counts == {Defect.LOST: 6}


def test_an_operation_at_two_offsets_is_duplicated() -> None:
    history, reads = good_run()
    again = reads[7]._replace(offset=1000)
    assert judged(history, [*reads, again]).counts == {Defect.DUPLICATED: 1}


def test_an_operation_in_two_partitions_is_duplicated() -> None:
    history, reads = good_run()
    again = reads[7]._replace(partition=5, offset=0)
    assert judged(history, [*reads, again]).counts == {Defect.DUPLICATED: 1}


def test_an_operation_at_three_offsets_is_one_duplicated_operation() -> None:
    history, reads = good_run()
    again = [reads[7]._replace(offset=offset) for offset in (1000, 1001)]
    assert judged(history, reads + again).counts == {Defect.DUPLICATED: 1}


def test_an_unacknowledged_operation_may_not_be_duplicated_either() -> None:
    history = History()
    history.invoke(0, 0, 0)
    history.info(0, 0, 0)
    report = judged(history, [Read(0, 0, 0, 0), Read(0, 1, 0, 0)])
    assert report.counts == {Defect.DUPLICATED: 1}


def test_a_producers_operations_must_keep_their_order_in_a_partition() -> None:
    history = History()
    for sequence in range(3):
        history.invoke(0, sequence, 0)
        history.info(0, sequence, 0)
    report = judged(history, [Read(0, 0, 0, 1), Read(0, 1, 0, 0), Read(0, 2, 0, 2)])
    assert report.counts == {Defect.OUT_OF_ORDER: 1}


def test_order_is_not_asked_across_partitions_or_producers() -> None:
    history = History()
    for process, sequence in ((0, 0), (0, 1), (1, 0)):
        history.invoke(process, sequence)
        history.info(process, sequence)
    report = judged(history, [Read(0, 0, 0, 1), Read(0, 1, 1, 0), Read(1, 0, 0, 0)])
    assert not report.counts


def test_an_operation_read_at_another_offset_than_acknowledged_is_divergent() -> None:
    history, reads = good_run()
    reads[-1] = reads[-1]._replace(offset=1000)
    assert judged(history, reads).counts == {Defect.DIVERGENT: 1}


def test_an_operation_read_in_another_partition_than_acknowledged_is_divergent() -> None:
    history, reads = good_run()
    reads[-1] = reads[-1]._replace(partition=7)
    assert judged(history, reads).counts == {Defect.DIVERGENT: 1}


def test_two_operations_read_at_one_offset_are_divergent() -> None:
    history, reads = good_run()
    history.invoke(9, 0, 0)
    history.info(9, 0, 0)
    other = Read(reads[0].partition, reads[0].offset, 9, 0)
    report = judged(history, [reads[0], other, *reads])
    assert report.counts == {Defect.DIVERGENT: 1}


def test_two_acknowledgements_at_different_offsets_are_divergent() -> None:
    history, reads = good_run()
    history.ok(0, 0, 0, 999)
    assert judged(history, reads).counts == {Defect.DIVERGENT: 1}


def test_an_acknowledgement_from_another_partition_than_asked_is_divergent() -> None:
    history = History()
    history.invoke(0, 0, 0)
    history.ok(0, 0, 1, 0)
    assert judged(history, [Read(1, 0, 0, 0)]).counts == {Defect.DIVERGENT: 1}


def test_a_record_that_nobody_sent_is_a_phantom() -> None:
    history, reads = good_run()
    report = judged(history, [*reads, Read(0, 1000, 0, 10**6)])
    assert report.counts == {Defect.PHANTOM: 1}
    assert "never invoked" in str(report)


def test_a_record_whose_operation_failed_for_certain_is_a_phantom() -> None:
    history, reads = good_run()
    history.invoke(9, 0, 0)
    history.fail(9, 0, 0)
    assert judged(history, reads).passed
    assert judged(history, [*reads, Read(0, 1000, 9, 0)]).counts == {Defect.PHANTOM: 1}


@pytest.mark.parametrize("ends", [True, False], ids=["timed out", "never ended"])
@pytest.mark.parametrize("was_read", [True, False])
def test_an_unknown_outcome_may_be_there_or_not(ends: bool, was_read: bool) -> None:
    history, reads = good_run()
    history.invoke(9, 0, 0)
    if ends:
        history.info(9, 0, 0)
    report = judged(history, [*reads, Read(0, 1000, 9, 0)] if was_read else reads)
    assert report.passed, report
    assert report.unknown == 1


def test_an_acknowledgement_after_a_timeout_counts() -> None:
    history = History()
    history.invoke(0, 0, 0)
    history.info(0, 0, 0)
    history.ok(0, 0, 0, 0)
    history.info(0, 0, 0)
    assert judged(history, [Read(0, 0, 0, 0)]).acked == 1
    assert judged(history, []).counts == {Defect.LOST: 1}


def test_an_acknowledgement_without_an_offset_is_checked_for_loss_only() -> None:
    history = History()
    history.invoke(0, 0, 0)
    history.ok(0, 0, 0)
    assert judged(history, [Read(0, 77, 0, 0)]).passed
    assert judged(history, []).counts == {Defect.LOST: 1}


def test_a_history_that_contradicts_itself_does_not_pass() -> None:
    history, reads = good_run()
    history.invoke(0, 0, 0)
    history.ok(9, 0, 0, 1000)
    history.fail(0, 0, 0)
    report = judged(history, reads)
    assert report.counts == {Defect.MALFORMED: 3}


def test_zero_lost_of_twelve_does_not_pass() -> None:
    history, reads = good_run(12)
    report = judged(history, reads, min_acked=1000)
    assert not report.counts
    assert not report.passed
    with pytest.raises(AssertionError, match=r"12 acknowledged of 12 .*\n.*too few"):
        report.assert_passed()


def test_a_run_in_which_nothing_happened_does_not_pass() -> None:
    assert not judged(History(), [], min_acked=1).passed


def test_a_low_ack_rate_does_not_pass_where_one_is_asked_for() -> None:
    history, reads = good_run(30)
    for sequence in range(70):
        history.invoke(9, sequence, 0)
        history.info(9, sequence, 0)
    report = check(history, Reads(reads), min_acked=30, min_ack_rate=0.5)
    assert report.ack_rate == pytest.approx(0.3)
    assert not report.passed


def test_the_ack_rate_is_reported() -> None:
    history, reads = good_run(30)
    report = judged(history, reads)
    assert report.seconds == pytest.approx(0.059)
    assert report.acks_per_second == pytest.approx(30 / 0.059)
    assert "30 acknowledged of 30 (100.0%, 508/s)" in str(report)


def test_every_defect_of_one_run_is_reported() -> None:
    history, reads = good_run(60)
    lost, moved = reads.pop(0), reads.pop(0)
    history.invoke(9, 1, 0)
    history.invoke(9, 0, 0)
    reads += [
        moved._replace(offset=500),
        reads[0]._replace(offset=501),
        Read(0, 502, 9, 1),
        Read(0, 503, 9, 0),
        Read(0, 504, lost.process, 999),
    ]
    report = judged(history, reads)
    # The moved one also comes after its producer's later ones.
    assert report.counts == {
        Defect.LOST: 1,
        Defect.DIVERGENT: 1,
        Defect.DUPLICATED: 1,
        Defect.OUT_OF_ORDER: 2,
        Defect.PHANTOM: 1,
    }


def test_examples_are_few_however_many_the_defects() -> None:
    history, _ = good_run(3000)
    report = judged(history, [])
    assert report.counts == {Defect.LOST: 3000}
    assert len(report.examples[Defect.LOST]) == EXAMPLES_MAX


def test_a_long_history_is_checked_whole() -> None:
    history, reads = good_run(100_000)
    assert judged(history, reads, min_acked=100_000).passed
    del reads[50_000]
    assert judged(history, reads).counts == {Defect.LOST: 1}


def test_a_history_survives_its_file(tmp_path: Path) -> None:
    history, _ = good_run()
    history.invoke(9, 0)
    history.info(9, 0)
    history.invoke(9, 1)
    history.fail(9, 1)
    history.save(tmp_path / "history.jsonl")
    loaded = History.load(tmp_path / "history.jsonl")
    assert list(loaded) == list(history)
    assert {entry.outcome for entry in loaded} == set(Outcome)
    first = (tmp_path / "history.jsonl").read_text().splitlines()[0]
    assert first == (
        '{"outcome":"invoke","process":0,"sequence":0,"partition":0,"offset":-1,"at_us":0}'
    )


@pytest.mark.parametrize(
    "line", ["", "rubbish", "[]", "{}", '{"outcome":"perhaps"}', '{"outcome":"ok","process":1}']
)
def test_a_file_with_a_bad_line_is_refused_and_the_line_named(tmp_path: Path, line: str) -> None:
    history, _ = good_run(1)
    path = tmp_path / "history.jsonl"
    history.save(path)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match="line 3"):
        History.load(path)


def test_impossible_numbers_are_refused_when_noted() -> None:
    with pytest.raises(ValueError, match="numbered from 0"):
        History().invoke(0, -1)
    with pytest.raises(ValueError, match="nothing can be read"):
        Reads([(0, -1, 0, 0)])
