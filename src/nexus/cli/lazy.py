"""Command groups that know their commands' names and import a command's module only when needed.

So `nexus broker` starts without the Kafka client and without the library that draws tables.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command


class _LazyCommands(MutableMapping[str, Any]):
    """Name to command; the module behind a name is imported when its command is first asked for."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = dict(modules)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            app = import_module(self._modules[name]).app
            command = get_command(app)
            command.name = name
            self._loaded[name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules | self._loaded)

    def __len__(self) -> int:
        return len(self._modules | self._loaded)


def lazy_app(help_text: str, modules: Mapping[str, str]) -> typer.Typer:
    """A group whose commands are the `app` of the modules named, by command name."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = _LazyCommands(modules)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

    app = typer.Typer(cls=LazyGroup, help=help_text, add_completion=False)

    @app.callback(invoke_without_command=True)
    def group(context: typer.Context) -> None:
        help_if_alone(context)

    return app


def help_if_alone(context: typer.Context) -> None:
    """A group called without a command explains itself; that is a wrong call all the same."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def single_app() -> typer.Typer:
    """An app for a module with one command."""
    return typer.Typer(add_completion=False)
