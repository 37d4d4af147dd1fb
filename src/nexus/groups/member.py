"""One member of a group, and the requests of it that wait for the group to move on."""

from __future__ import annotations

from dataclasses import dataclass

from nexus.groups.requests import JoinRequest, MemberProtocol
from nexus.groups.results import JoinMember, MemberDescription


@dataclass(slots=True, eq=False)
class Member:
    """Who a member is, what it offers and was assigned, and whether it waits for an answer."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    # A new member's client may not know its id yet and so cannot heartbeat: unlike others, it may
    # expire while it waits.
    is_new: bool = False
    # Tokens are opaque and may be None, hence the flags.
    awaiting_join: bool = False
    join_token: object = None
    awaiting_sync: bool = False
    sync_token: object = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        return self.awaiting_join or self.awaiting_sync

    def matches(self, protocols: tuple[MemberProtocol, ...]) -> bool:
        """Whether it offers just these protocols, with the same metadata and in this order."""
        return self.protocols == protocols

    def metadata_for(self, protocol: str | None) -> bytes:
        return next((p.metadata for p in self.protocols if p.name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The candidate it likes best."""
        return next(p.name for p in self.protocols if p.name in candidates)

    def as_joined(self, protocol: str | None) -> JoinMember:
        return JoinMember(self.member_id, self.group_instance_id, self.metadata_for(protocol))

    def describe(self, protocol: str | None) -> MemberDescription:
        """How an operator sees it; without a protocol, no metadata and assignment are told."""
        return MemberDescription(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            b"" if protocol is None else self.metadata_for(protocol),
            b"" if protocol is None else self.assignment,
        )


def rebalance_timeout_of(request: JoinRequest) -> int:
    """What the request says, or the session timeout where it says nothing of use."""
    timeout = request.rebalance_timeout_ms
    return timeout if timeout > 0 else request.session_timeout_ms
