"""YAML of which each line says one thing: no key twice, no aliases, no more levels than a person writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from phasewise.records.errors import PlanError

# of a configuration: workloads, one of them, its cases
MOST_LEVELS = 8
# far more than anybody writes
MOST_BYTES = 1 << 20


class _Loader(yaml.SafeLoader):
    """Refuses what the standard lets through: the last of two keys wins, and ten aliases of ten are a hundred."""

    levels = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.MarkedYAMLError(None, None, f"the alias *{event.anchor} is not allowed", event.start_mark)
        if self.levels == MOST_LEVELS:
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(None, None, f"more than {MOST_LEVELS} levels are not allowed", mark)
        self.levels += 1
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.MarkedYAMLError(None, None, f"a key has to be text, {key.value!r} is none", key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"the key {key.value!r} stands there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The plain values of the file at `path`.

    Raises:
        PlanError: it can't be read, or is no such YAML; with the line.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise PlanError(f"{path}: longer than {MOST_BYTES} bytes; is this the file that was meant?")
        return yaml.load(content.decode(), _Loader)
    except OSError as error:
        raise PlanError(
            f"{path}: no configuration can be read there ({error.strerror}); restore it or name another"
        ) from error
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise PlanError(f"{path}: {line}not the YAML that is read here ({error.problem}); mend it") from error
    except (yaml.YAMLError, ValueError) as error:
        raise PlanError(f"{path}: not YAML ({' '.join(str(error).split())}); mend it") from error
