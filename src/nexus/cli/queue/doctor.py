"""`nexus queue doctor`: what ails a queue in etcd, and the way out of NOSPACE."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from nexus.cli.confirm import Yes, confirm
from nexus.cli.findings import print_findings
from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json
from nexus.cli.queue.options import Queue, ask, now_ms, queue_of

if TYPE_CHECKING:
    from nexus.etcd import Client
    from nexus.queue.etcd.doctor import Finding, Step
    from nexus.queue.url import EtcdUrl

app = single_app()


@app.command()
def doctor(
    *,
    recover: Annotated[
        bool,
        typer.Option("--recover", help="Compact, defragment each member, clear NOSPACE."),
    ] = False,
    yes: Yes = False,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """Check etcd and the queue in it; with --recover make room, without deleting anything.

    Each line is ok, a warning or a problem with what to do. The exit code is 1 if there is a
    problem, or if the recovery did not do.

    \b
    Examples:
      nexus queue doctor
      nexus queue doctor --queue etcd://etcd-1:2379 --json
      nexus queue doctor --recover
    """
    url = queue_of(queue)
    if recover:
        return _recover(url, yes, json)
    from nexus.queue.etcd.doctor import Level, examine

    findings = ask(
        url, lambda client: examine(client, url.layout, now_ms(), told_quota=url.quota_bytes)
    )
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    if json:
        print_json({"ok": not problems, "findings": [_document(f) for f in findings]})
    else:
        print_findings([(f.level.value, f.check, f.found, f.advice) for f in findings])
    return 1 if problems else 0


def _recover(url: "EtcdUrl", yes: bool, json: bool) -> int:
    from nexus.queue.etcd.doctor import health, plan

    found = ask(url, lambda client: health(client, url.quota_bytes))
    out = sys.stderr if json else sys.stdout
    print("This will, in this order:", file=out)
    for number, said in enumerate(plan(found), 1):
        print(f"  {number}. {said}", file=out)
    confirm("Go on?", yes)
    steps = ask(url, lambda client: _steps(client, url, out=None if json else sys.stdout))
    if json:
        print_json({"ok": all(s.done for s in steps), "steps": [s._asdict() for s in steps]})
    return 0 if all(step.done for step in steps) else 1


async def _steps(client: "Client", url: "EtcdUrl", out: object) -> "list[Step]":
    from nexus.queue.etcd.doctor import recover

    steps: list[Step] = []
    async for step in recover(client, url.layout.meta("config"), url.quota_bytes):
        steps.append(step)
        if out is not None:
            print(f"{'done' if step.done else 'NOT DONE'}: {step.said}", flush=True)
    return steps


def _document(finding: "Finding") -> dict[str, str]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "found": finding.found,
        "advice": finding.advice,
    }
