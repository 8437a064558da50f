"""The contract made fit for reading: keys in order, what is shared written once, plain YAML.

It knows OpenAPI's words and nothing of what our contract says.
"""

from typing import Any

import yaml

LAST = ("limit", "after", "wait", "timeout", "as")  # parameters that many operations have
ORDER = (
    *("openapi", "info", "servers", "operationId", "name", "url", "in", "title", "summary"),
    *("version", "description", "tags", "security", "paths", "components"),
    *("required", "type", "format", "contact", "license"),
    *("parameters", "requestBody", "responses", "headers", "schema", "content"),
)
NAMES = ("paths", "properties", "responses", "headers", "parameters", "schemas", "content")
AS_THEY_ARE = ("example", "examples", "default", "enum", "required")


def tidied(made: dict[str, Any]) -> dict[str, Any]:
    """The same contract with shared parameters written once and keys in the order of reading."""
    return _ordered(_hoisted(made))


def text(made: dict[str, Any]) -> str:
    """The contract as YAML."""
    return yaml.dump(made, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _hoisted(made: dict[str, Any]) -> dict[str, Any]:
    """With every parameter that several operations share written once."""
    operations = [each for path in made["paths"].values() for each in path.values()]
    everywhere = [parameter for each in operations for parameter in each["parameters"]]
    shared: dict[str, Any] = {}
    for operation in operations:
        ranked = sorted(operation["parameters"], key=_rank)
        for place, parameter in enumerate(ranked):
            if everywhere.count(parameter) > 1:
                name = _camel(parameter["name"]) + parameter["in"].title()
                if shared.setdefault(name, parameter) != parameter:
                    continue  # another one of that name is shared already
                ranked[place] = {"$ref": f"#/components/parameters/{name}"}
        operation["parameters"] = ranked
    made["components"]["parameters"] = shared
    return made


def _camel(name: str) -> str:
    return name.title().replace("-", "").replace("_", "")


def _rank(parameter: dict[str, Any]) -> tuple[int, int]:
    name = parameter["name"]
    place = ("path", "query", "header").index(parameter["in"])
    return place, LAST.index(name) + 1 if name in LAST else 0


def _ordered(found: Any, named: bool = False) -> Any:
    """The same with the keys in the order of reading; ``named`` are names, which keep theirs."""
    if isinstance(found, list):
        return [_ordered(item) for item in found]
    if not isinstance(found, dict):
        return found
    keys = list(found) if named else sorted(found, key=_place)
    return {
        key: found[key]
        if key in AS_THEY_ARE and not named
        else _ordered(found[key], key in NAMES and not named)
        for key in keys
    }


def _place(key: str) -> int:
    return ORDER.index(key) if key in ORDER else len(ORDER)


class _Dumper(yaml.SafeDumper):
    """YAML for reading: several lines as a block, short lists on one line."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: _Dumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else ">" if len(text) > 80 else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _sequence(dumper: _Dumper, items: list[Any]) -> yaml.Node:
    flat = all(isinstance(item, str) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flat)


_Dumper.add_representer(str, _string)
_Dumper.add_representer(list, _sequence)
