"""Clients, good and bad, against one coordinator whose stores are slow and may fail.

Whatever they do: one owner for a partition in a generation, generations that only grow, every
request answered once, commits that stay, and a log from which the same group arises again.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nexus.groups import (
    CommitResult,
    Coordinator,
    DeleteGroupResult,
    Effects,
    FetchOffsetsRequest,
    GroupConfig,
    JoinResult,
    LeavingMember,
    Reply,
    SyncRequest,
    SyncResult,
)
from nexus.groups.records import GroupKey, decode_group_value, decode_key
from nexus.wire.errors import ErrorCode
from support.group_clients import PARTITIONS, Client
from support.group_driver import GROUP, SESSION_MS, Driver

CLIENTS = st.integers(0, 5)
GENERATIONS = st.integers(-1, 12)
FAILURES = st.sampled_from([ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS])


class WatchingDriver(Driver):
    """Checks every reply as it passes, against what was told before."""

    def __init__(self, config: GroupConfig) -> None:
        self.generation = 0
        self.told: dict[int, dict[str, frozenset[int]]] = {}
        self.syncs: dict[int, tuple[int, str]] = {}
        self.commits: dict[int, int] = {}
        self.expected = -1
        self.membership_in_doubt = False
        super().__init__(config)

    def run(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self._watch(effect)
        super().run(effects)

    def _watch(self, reply: Reply) -> None:
        result, token = reply.result, reply.token
        assert isinstance(token, int)
        if isinstance(result, JoinResult) and result.error is ErrorCode.NONE:
            assert result.generation_id >= self.generation
            self.generation = result.generation_id
        elif isinstance(result, SyncResult) and result.error is ErrorCode.NONE:
            self._owns(*self.syncs[token], frozenset(result.assignment))
        elif isinstance(result, CommitResult) and result.errors[("t", 0)] is ErrorCode.NONE:
            self.expected = self.commits[token]
        elif isinstance(result, DeleteGroupResult) and result.error is ErrorCode.NONE:
            self.expected = -1

    def _owns(self, generation: int, slot: str, partitions: frozenset[int]) -> None:
        owners = self.told.setdefault(generation, {})
        assert owners.get(slot, partitions) == partitions, "an assignment changed"
        owners[slot] = partitions
        for other, theirs in owners.items():
            assert other == slot or not theirs & partitions, "two owners of one partition"

    def sync(
        self,
        joined: JoinResult,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
    ) -> int:
        token = self.token()
        self.syncs[token] = joined.generation_id, instance or joined.member_id
        request = SyncRequest(
            group,
            joined.generation_id,
            joined.member_id,
            instance,
            kind,
            protocol,
            tuple((assignments or {}).items()),
        )
        self.run(self.coordinator.sync(token, request, self.now_ms))
        return token

    def finish_store(self, error: ErrorCode = ErrorCode.NONE) -> None:
        for key, value in self.held[0].records:
            if isinstance(decode_key(key), GroupKey):
                self.membership_in_doubt = error is not ErrorCode.NONE
                if value is None and error is ErrorCode.NONE:
                    self.told, self.generation = {}, 0  # a new life begins at the first generation
        super().finish_store(error)

    def restart(self) -> None:
        self.generation = self.stored_generation()
        self.membership_in_doubt = False
        super().restart()

    def stored_generation(self) -> int:
        """The generation that the log speaks of."""
        values = [v for k, v in self.log if isinstance(decode_key(k), GroupKey)]
        return decode_group_value(values[-1]).generation if values and values[-1] else 0


class GroupMachine(RuleBasedStateMachine):
    """Three dynamic and three static clients, two of which claim the same instance."""

    @initialize(
        delay=st.sampled_from([0, 3_000]),
        size=st.sampled_from([4, 100, 100]),
        starting=st.sets(CLIENTS),
    )
    def begin(self, delay: int, size: int, starting: set[int]) -> None:
        config = GroupConfig(
            initial_rebalance_delay_ms=delay,
            group_size_max=size,
            offsets_retention_ms=10**12,
            offsets_check_interval_ms=500_000,
        )
        self.driver = WatchingDriver(config)
        self.driver.hold_stores = True
        self.next_offset = 0
        self.clients = [
            Client(self.driver),
            Client(self.driver),
            Client(self.driver, id_required=False),
            Client(self.driver, "host-1"),
            Client(self.driver, "host-2"),
            Client(self.driver, "host-2"),
        ]
        self.everyone_works(starting)

    # -- the well-behaved

    @rule(n=CLIENTS)
    def a_client_starts(self, n: int) -> None:
        if self.clients[n].is_out:
            self.clients[n].join()

    @rule(n=CLIENTS)
    def one_goes_on(self, n: int) -> None:
        self.clients[n].step()

    @rule(starting=st.sets(CLIENTS), rounds=st.integers(1, 5))
    def everyone_works(self, starting: set[int], rounds: int = 5) -> None:
        """Rounds of stores, answers and heartbeats: what mostly happens."""
        for n in starting:
            self.a_client_starts(n)
        for _ in range(rounds):
            self.driver.pass_ms(1_000)
            self.driver.finish_stores()
            for client in self.clients:
                client.step()
                client.heartbeat()

    @rule(order=st.lists(CLIENTS, min_size=1, max_size=8), stores=st.integers(0, 2))
    def some_work(self, order: list[int], stores: int) -> None:
        """Some are quick, some are not, and neither is the disk."""
        for n in order:
            self.clients[n].step()
            self.clients[n].heartbeat()
        for _ in range(min(stores, len(self.driver.held))):
            self.driver.finish_store()

    @rule()
    def calm_comes(self) -> None:
        """Left alone, those who are in end up with all partitions, whatever happened before."""
        for _ in range(150):
            if self._is_calm():
                return
            self.everyone_works(set())
        raise AssertionError("the group does not come to rest")

    def _is_calm(self) -> bool:
        owners = [c for c in self.clients if c.owned is not None and c.joined is not None]
        if all(client.is_out for client in self.clients):
            return True
        generations = {c.joined.generation_id for c in owners if c.joined is not None}
        shares = sorted(partition for c in owners for partition in c.owned or ())
        return len(generations) == 1 and shares == list(range(PARTITIONS))

    @rule(n=CLIENTS)
    def a_client_heartbeats(self, n: int) -> None:
        self.clients[n].heartbeat()

    @rule(n=CLIENTS, gracefully=st.booleans())
    def a_client_goes(self, n: int, gracefully: bool) -> None:
        if gracefully:
            self.clients[n].leave()
        else:
            self.clients[n].crash()

    @rule(n=st.integers(3, 5))
    def a_static_client_restarts(self, n: int) -> None:
        self.clients[n].crash()
        self.clients[n].join()

    @rule(n=CLIENTS)
    def a_client_commits(self, n: int) -> None:
        joined = self.clients[n].joined
        if joined is not None:
            self._commit(joined, self.clients[n].instance)

    # -- the others

    @rule(n=CLIENTS, generation=GENERATIONS)
    def someone_heartbeats_for_another(self, n: int, generation: int) -> None:
        claim = JoinResult(ErrorCode.NONE, self.clients[n].member_id, generation)
        error = self.driver.heartbeat(claim, instance=self.clients[-n].instance)
        assert generation == self.driver.generation or error is not ErrorCode.NONE

    @rule(n=CLIENTS)
    def a_follower_claims_everything(self, n: int) -> None:
        joined = self.clients[n].joined
        if joined is not None and joined.leader != joined.member_id:
            greedy = dict.fromkeys((c.member_id for c in self.clients), bytes(range(6)))
            self.driver.sync(joined, greedy, instance=self.clients[n].instance)

    @rule(n=CLIENTS)
    def someone_joins_under_anothers_id(self, n: int) -> None:
        self.driver.join(self.clients[n].member_id, instance=self.clients[-n].instance)

    @rule(n=CLIENTS, generation=GENERATIONS)
    def someone_commits_for_another(self, n: int, generation: int) -> None:
        self._commit(JoinResult(ErrorCode.NONE, self.clients[n].member_id, generation), None)

    @rule()
    def someone_commits_outside_of_membership(self) -> None:
        self._commit(JoinResult(ErrorCode.NONE, "", -1), None)

    @rule(instance=st.sampled_from(["host-1", "host-2", ""]))
    def an_operator_acts(self, instance: str) -> None:
        """Removes a static member, or tries to delete the group."""
        if instance:
            self.driver.leave(LeavingMember("", instance))
        else:
            token = self.driver.token()
            self.driver.run(self.driver.coordinator.delete_group(token, GROUP, self.driver.now_ms))

    # -- the disk, the clock, the coordinator

    @precondition(lambda self: self.driver.held)
    @rule()
    def a_store_ends_well(self) -> None:
        self.driver.finish_store()

    @precondition(lambda self: self.driver.held)
    @rule(error=FAILURES)
    def a_store_fails(self, error: ErrorCode) -> None:
        self.driver.finish_store(error)

    @rule(delay=st.sampled_from([1, 1_000, 1_000, 3_000, SESSION_MS // 2, SESSION_MS, 600_000]))
    def time_passes(self, delay: int) -> None:
        self.driver.pass_ms(delay)

    @rule()
    def the_coordinator_moves(self) -> None:
        self.driver.restart()

    # -- what must hold

    @invariant()
    def what_was_committed_is_seen(self) -> None:
        if hasattr(self, "driver"):
            assert self.driver.committed() == self.driver.expected

    @invariant()
    def the_log_tells_the_same_story(self) -> None:
        if hasattr(self, "driver") and not self.driver.held:
            again = Coordinator(self.driver.config, str)
            again.load(self.driver.log)
            again.loaded(self.driver.now_ms)
            assert again.skipped_records == 0
            request = FetchOffsetsRequest(GROUP)
            live = self.driver.coordinator
            assert again.fetch_offsets(request) == live.fetch_offsets(request)
            self._same_members(live, again)

    def _same_members(self, live: Coordinator, again: Coordinator) -> None:
        here, there = live.describe_group(GROUP), again.describe_group(GROUP)
        if here.state != "Stable" or self.driver.membership_in_doubt:
            return
        assert there.protocol == here.protocol
        # The order of members is not part of the story.
        assert sorted(there.members, key=str) == sorted(here.members, key=str)
        assert self.driver.stored_generation() >= max(self.driver.told, default=0)

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        for _ in range(3):
            self.driver.finish_stores()
            self.driver.pass_ms(700_000)
        self.driver.finish_stores()
        unanswered = set(range(1, self.driver.token())) - set(self.driver.replies)
        assert not unanswered
        described = self.driver.coordinator.describe_group(GROUP)
        assert described.state in ("Empty", "Dead")
        assert described.members == ()

    def _commit(self, joined: JoinResult, instance: str | None) -> None:
        self.next_offset += 1
        token = self.driver.send_commit(self.next_offset, joined=joined, instance=instance)
        self.driver.commits[token] = self.next_offset  # stores are held: no success came yet
        if joined.generation_id not in (-1, self.driver.generation):
            assert self.driver.commit_error(token) is not ErrorCode.NONE


GroupMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestGroupMachine = GroupMachine.TestCase
