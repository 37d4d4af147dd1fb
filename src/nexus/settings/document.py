"""A YAML file as sections of values that remember their line, so that errors can point at it.

Only plain data is built (the safe loader); a key given twice is an error, not the last one wins.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from nexus.settings.entry import Entry
from nexus.settings.errors import SettingsError
from nexus.settings.place import Config, Document, Place

_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FILE_BYTES_MAX: Final = 4 << 20


def entries_of(config: Config) -> tuple[Place, Entry]:
    """What a file or a document says, and what it is called in messages."""
    if isinstance(config, Document):
        return config.place, parse_document(config.text, config.place)
    return config, read_document(config)


def read_document(path: Path) -> Entry:
    """The whole file as one entry; SettingsError when it cannot be read or is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(text) > _FILE_BYTES_MAX:
        raise SettingsError(f"{path}: is larger than {_FILE_BYTES_MAX} bytes")
    return parse_document(text, path)


def parse_document(text: str, path: Place) -> Entry:
    """Text to entries; the path is only for messages."""
    loader: Any = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return Entry(None, 1) if node is None else _entry(loader, node, path, depth=0)
    except yaml.YAMLError as error:
        raise SettingsError(_syntax_message(error, path)) from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: is not usable YAML: {error}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _entry(loader: Any, node: yaml.Node, path: Place, depth: int) -> Entry:
    line = node.start_mark.line + 1
    # Three levels are meant (section, key, topic's key); what lies deeper is a leaf to be refused.
    if not isinstance(node, yaml.MappingNode) or depth > 3:
        return Entry(loader.construct_object(node, deep=True), line)
    _refuse_duplicates(node, path)
    loader.flatten_mapping(node)
    entries: dict[str, Entry] = {}
    for key_node, value_node in node.value:
        entries[_key(key_node)] = _entry(loader, value_node, path, depth + 1)
    return Entry(entries, line)


def _refuse_duplicates(node: yaml.MappingNode, path: Place) -> None:
    seen: dict[str, int] = {}
    for key_node, _ in node.value:
        key, line = _key(key_node), key_node.start_mark.line + 1
        if key in seen:
            raise SettingsError(f"{path}:{line}: {key}: given twice (first on line {seen[key]})")
        seen[key] = line


def _key(node: yaml.Node) -> str:
    """Keys are taken as written, so that `on:` is not True and a topic may be called 2024."""
    return node.value if isinstance(node, yaml.ScalarNode) else "?"


def _syntax_message(error: yaml.YAMLError, path: Place) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).replace("\n", " ")
    where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
    return f"{where}: is not valid YAML: {problem}"
