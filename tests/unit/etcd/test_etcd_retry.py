"""What a failed attempt means, and whether another follows."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from nexus.etcd import errors
from nexus.etcd.endpoints import Rotation
from nexus.etcd.errors import Ambiguous, AuthFailed, EtcdError, TokenRefused, Unavailable
from nexus.etcd.faults import Fate, Fault, judge, server_limit_bytes, unreachable
from nexus.etcd.retry import Attempts, Backoff

SAID = [
    (StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted"),
    (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"),
    (StatusCode.NOT_FOUND, "etcdserver: requested lease not found"),
    (StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large"),
    (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests"),
    (StatusCode.UNAVAILABLE, "etcdserver: no leader"),
    (StatusCode.UNAVAILABLE, "etcdserver: request timed out"),
    (StatusCode.UNAVAILABLE, "Socket closed"),
    (StatusCode.DEADLINE_EXCEEDED, ""),
    (StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token"),
    (StatusCode.UNAUTHENTICATED, "something else"),
    (StatusCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max (3 vs. 2)"),
    (StatusCode.RESOURCE_EXHAUSTED, "CLIENT: Received message larger than max (3 vs. 2)"),
    (StatusCode.FAILED_PRECONDITION, "etcdserver: of a kind we do not know"),
]
MEANT = [
    (errors.Compacted, Fate.REFUSED),
    (errors.NoSpace, Fate.REFUSED),
    (errors.LeaseNotFound, Fate.REFUSED),
    (errors.RequestTooLarge, Fate.REFUSED),
    (errors.Busy, Fate.UNSENT),
    (errors.Unavailable, Fate.UNSENT),
    (errors.Unavailable, Fate.UNKNOWN),
    (errors.Unavailable, Fate.UNKNOWN),
    (errors.Unavailable, Fate.UNKNOWN),
    (errors.TokenRefused, Fate.UNSENT),
    (errors.TokenRefused, Fate.UNSENT),
    (errors.RequestTooLarge, Fate.REFUSED),
    (errors.ResponseTooLarge, Fate.REFUSED),
    (errors.EtcdError, Fate.REFUSED),
]
UNKNOWN = judge(StatusCode.UNAVAILABLE, "Socket closed", "a:1")


@pytest.mark.parametrize(("said", "meant"), list(zip(SAID, MEANT, strict=True)), ids=str)
def test_each_failure_has_one_error_and_one_fate(
    said: tuple[StatusCode, str], meant: tuple[type[EtcdError], Fate]
) -> None:
    fault = judge(*said, "a:1")
    assert (type(fault.error), fault.fate) == meant
    assert "a:1" in str(fault.error)


def test_a_servers_limit_is_read_from_its_complaint() -> None:
    assert server_limit_bytes(judge(*SAID[11], "a:1").error) == 2
    assert server_limit_bytes(judge(*SAID[3], "a:1").error) is None


def attempts(*, repeatable: bool) -> Attempts:
    return Attempts(deadline=10.0, attempt_s=3.0, repeatable=repeatable, chance=lambda: 1.0)


def test_a_write_of_unknown_fate_is_never_tried_again() -> None:
    with pytest.raises(Ambiguous):
        attempts(repeatable=False).after(UNKNOWN, now=0.0)


def test_a_write_that_was_not_sent_is_tried_again_until_the_deadline() -> None:
    tries = attempts(repeatable=False)
    now, unsent = 0.0, unreachable("a:1", "cannot connect")
    while now < 9.0:
        now += tries.after(unsent, now)
    with pytest.raises(Unavailable, match="nothing was written"):
        tries.after(unsent, now=9.5)


def test_a_read_is_tried_again_whatever_happened_but_not_when_it_was_refused() -> None:
    tries = attempts(repeatable=True)
    assert tries.after(UNKNOWN, now=0.0) > 0
    with pytest.raises(errors.Compacted):
        tries.after(Fault(errors.Compacted("gone"), Fate.REFUSED), now=0.0)


def test_only_calls_that_may_be_repeated_have_an_attempts_time() -> None:
    assert attempts(repeatable=True).timeout_s(now=0.0) == 3.0
    assert attempts(repeatable=True).timeout_s(now=9.0) == 1.0
    assert attempts(repeatable=False).timeout_s(now=0.0) == 10.0
    assert attempts(repeatable=False).timeout_s(now=11.0) > 0


def test_a_token_that_is_refused_again_and_again_ends_the_call() -> None:
    tries = attempts(repeatable=False)
    refused = Fault(TokenRefused("old"), Fate.UNSENT)
    assert [tries.after(refused, 0.0), tries.after(refused, 0.0)] == [0.0, 0.0]
    with pytest.raises(AuthFailed):
        tries.after(refused, 0.0)


def test_pauses_double_up_to_a_bound_and_are_spread_by_chance() -> None:
    backoff = Backoff(first_s=0.1, most_s=1.0)
    assert [backoff.pause_s(n, chance=1.0) for n in (1, 2, 3, 4, 5, 5000)] == pytest.approx(
        [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    )
    assert backoff.pause_s(1, chance=0.0) == pytest.approx(0.05)


def test_many_calls_that_fail_at_once_move_on_by_one_endpoint() -> None:
    rotation = Rotation(("a", "b", "c"))
    rotation.failed("a")
    rotation.failed("a")
    assert rotation.current == "b"
    rotation.failed("b")
    rotation.failed("c")
    assert rotation.current == "a"


def test_only_errors_after_which_nothing_happened_are_retriable() -> None:
    retriable = {
        kind.__name__
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EtcdError) and kind.retriable
    }
    assert retriable == {"Busy", "NoSpace", "TokenRefused", "Unavailable"}
