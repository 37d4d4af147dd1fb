"""`nexus doctor`: what is in the way of `nexus up`, and what to do about it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nexus.cli.config_place import read_config
from nexus.cli.findings import print_findings
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile
from nexus.cli.output import JsonFlag, print_json
from nexus.settings.options import FlagValue

if TYPE_CHECKING:
    from nexus.up.doctor.findings import Finding

app = single_app()


@app.command()
def doctor(
    *,
    config: ConfigFile = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="As for `nexus up`. (default ./data)")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A queue that should answer: kafka://…/topic or etcd://…; or kafka or etcd, as for"
            " `nexus up`.",
        ),
    ] = None,
    collector_url: Annotated[
        str | None, typer.Option(metavar="URL", help="A collector's side port that should answer.")
    ] = None,
    gateway_url: Annotated[
        str | None, typer.Option(metavar="URL", help="A gateway that should answer.")
    ] = None,
    json: JsonFlag = False,
) -> int:
    """Check this machine, its ports and its clock, the data directory, and the parts that run.

    Each line is ok, a warning or a problem with what to do. The exit code is 1 if there is a
    problem.

    \b
    Examples:
      nexus doctor
      nexus doctor --data-dir /var/lib/nexus --json
      nexus doctor --queue etcd://127.0.0.1:2379
      nexus doctor --queue kafka://broker-1:9092/gpu-telemetry --gateway-url http://web-1:8080
    """
    from nexus.settings.up import load_up_settings
    from nexus.up.doctor.examine import Asked, examine

    flags = {} if data_dir is None else {"up.data_dir": FlagValue("--data-dir", data_dir)}
    if queue is not None and "://" not in queue:  # not one that runs, but what `nexus up` is told
        flags["up.queue"] = FlagValue("--queue", queue)
        queue = None
    settings = load_up_settings(read_config(config), flags=flags)
    findings = examine(settings, Asked(queue, collector_url, gateway_url), _java)
    problems = sum(finding.level.value == "problem" for finding in findings)
    if json:
        print_json({"ok": not problems, "findings": [_document(f) for f in findings]})
    else:
        print_findings([(f.level.value, f.check, f.found, f.advice) for f in findings])
    return 1 if problems else 0


def _java() -> str:
    import os

    from nexus.pipeline.collector.java import find_java

    java = find_java(os.environ)
    return f"Java {java.version} in {java.home}"


def _document(finding: "Finding") -> dict[str, str]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "found": finding.found,
        "advice": finding.advice,
    }
