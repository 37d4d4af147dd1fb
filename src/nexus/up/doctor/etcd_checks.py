"""Is there an etcd to start, and does one that runs answer, with room for more."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from nexus.errors import NexusError
from nexus.up.doctor.findings import Finding, ok, problem, warning
from nexus.up.words import size

if TYPE_CHECKING:
    from nexus.etcd import Alarm, Client, Status

LEAST: Final = (3, 4)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_ASK_S: Final = 5.0
_OLD: Final = "install etcd 3.4 or newer"


def check_etcd_program(find: Callable[[], str], ask: Callable[[str], str]) -> Finding:
    """`find` says where the program is, or raises what to install; `ask` gets its version."""
    try:
        program = find()
        said = ask(program)
    except NexusError as error:
        found, _, advice = str(error).partition(": ")
        return problem("etcd", found, advice or _OLD)
    except (OSError, subprocess.SubprocessError) as error:
        return problem("etcd", f"cannot be run: {error}", "set ETCD_BIN to an etcd that works")
    version = _VERSION.search(said)
    if version is None or (int(version[1]), int(version[2])) < LEAST:
        return problem("etcd", f"{program} is {said.strip()[:40] or 'no etcd'}", _OLD)
    return ok("etcd", f"version {version[0]} in {program}")


def version_of(program: str) -> str:
    """The first line of what a program says of its version."""
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=_ASK_S, check=False
    )
    return done.stdout.partition("\n")[0]


def check_etcd(url: str, look: Callable[[str], tuple[list[Status], tuple[Alarm, ...]]]) -> Finding:
    """An etcd that should answer; `look` asks it."""
    try:
        members, alarms = look(url)
    except NexusError as error:
        return problem("etcd", f"{url}: {error}", "start it there, or give another --queue")
    if alarms:
        raised = ", ".join(sorted({alarm.kind.name for alarm in alarms}))
        advice = f"see what to do: nexus queue doctor --queue '{url}'"
        return problem("etcd", f"{url} has raised the alarm {raised}", advice)
    if not any(member.leader_id for member in members):
        return problem("etcd", f"{url} answers, but has no leader", "start its other members")
    newest = members[0]
    said = f"{url} answers, version {newest.version}, {size(newest.db_bytes)} of data"
    if _numbers(newest.version) < LEAST:
        return warning("etcd", said, _OLD)
    return ok("etcd", said)


def look_at_etcd(url: str) -> tuple[list[Status], tuple[Alarm, ...]]:
    """The members that an address names, and their alarms; EtcdError if none answers."""
    # Its package loads gRPC, which a doctor without etcd has no use for.
    from nexus.etcd import connect  # noqa: PLC0415
    from nexus.etcd.address import parse_etcd_address  # noqa: PLC0415
    from nexus.etcd.blocking import LoopThread  # noqa: PLC0415

    config = parse_etcd_address(url).config()

    async def ask() -> tuple[list[Status], tuple[Alarm, ...]]:
        async with connect(config) as client:
            alarms = await client.maintenance.alarms()
            return await _members(client), alarms

    thread = LoopThread()
    try:
        return thread.run(ask())
    finally:
        thread.close()


async def _members(client: Client) -> list[Status]:
    from nexus.etcd import EtcdError  # noqa: PLC0415

    found = []
    for endpoint in client.maintenance.endpoints:
        try:
            found.append(await client.maintenance.status(endpoint))
        except EtcdError:  # another one answers
            continue
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
