"""A simulated consumer that follows the group protocol, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from nexus.groups import JoinResult, LeavingMember, SyncResult
from nexus.wire.errors import ErrorCode
from support.group_driver import Driver

PARTITIONS = 6
_START_OVER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}
)


@dataclass
class Client:
    """What a consumer knows about itself; `owned` is None unless it has an assignment."""

    driver: Driver
    instance: str | None = None
    id_required: bool = True
    member_id: str = ""
    joined: JoinResult | None = None
    owned: frozenset[int] | None = None
    join_token: int | None = None
    sync_token: int | None = None
    tokens: list[int] = field(default_factory=list)

    @property
    def is_out(self) -> bool:
        return self.join_token is None and self.sync_token is None and self.joined is None

    def join(self) -> None:
        self.owned = self.joined = self.sync_token = None
        self.join_token = self.driver.join(
            self.member_id, instance=self.instance, id_required=self.id_required
        )
        self.tokens.append(self.join_token)

    def step(self) -> None:
        """Look whether an answer came, and do what a client does next."""
        if self.join_token in self.driver.replies:
            self._on_joined(self.driver.joined(self.join_token or 0))
        elif self.sync_token in self.driver.replies:
            self._on_synced(self.driver.synced(self.sync_token or 0))

    def _on_joined(self, result: JoinResult) -> None:
        self.join_token = None
        if result.error is ErrorCode.NONE:
            self.joined, self.member_id = result, result.member_id
            self.sync_token = self.driver.sync(result, share_out(result), instance=self.instance)
            self.tokens.append(self.sync_token)
        elif result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self.join()
        else:
            self._start_over(result.error)

    def _on_synced(self, result: SyncResult) -> None:
        self.sync_token = None
        if result.error is ErrorCode.NONE:
            self.owned = frozenset(result.assignment)
        else:
            self._start_over(result.error)

    def heartbeat(self) -> None:
        if self.joined is not None:
            error = self.driver.heartbeat(self.joined, instance=self.instance)
            if error is ErrorCode.REBALANCE_IN_PROGRESS and self.join_token is None:
                self.join()
            elif error is not ErrorCode.NONE and self.join_token is None:
                self._start_over(error)

    def _start_over(self, error: ErrorCode) -> None:
        self.owned = self.joined = self.sync_token = None
        if error in _START_OVER:
            self.member_id = ""
        if error is not ErrorCode.FENCED_INSTANCE_ID:
            self.join()

    def crash(self) -> None:
        """Forget everything; whatever was asked is answered to nobody."""
        self.member_id = ""
        self.owned = self.joined = self.join_token = self.sync_token = None

    def leave(self) -> None:
        if self.member_id:
            self.driver.leave(LeavingMember(self.member_id, self.instance))
        self.crash()


def share_out(joined: JoinResult) -> dict[str, bytes]:
    """Every partition to one of the members, if there are any to be seen."""
    shares: dict[str, list[int]] = {member.member_id: [] for member in joined.members}
    ids = sorted(shares)
    for partition in range(PARTITIONS if ids else 0):
        shares[ids[(partition + joined.generation_id) % len(ids)]].append(partition)
    return {member_id: bytes(parts) for member_id, parts in shares.items()}
