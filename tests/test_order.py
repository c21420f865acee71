"""The rooms and their order: a room imports only from rooms to its left, and no two modules import each other."""

import ast
from collections.abc import Iterator
from pathlib import Path

import limbeck

HOUSE = Path(limbeck.__file__).parent
ORDER = [
    {"core"},
    {"functional", "engines"},
    {"objectives", "students", "teachers", "data", "passes"},
    {"training", "measure"},
    {"exporters", "report"},
    {"tasks"},
    {"recipes"},
    {"jobs"},
    {"experiments"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(ORDER) for room in rooms}


def name_of(path: Path) -> str:
    """`core.knob`; a package is called by its folder."""
    return ".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


MODULES = {name_of(path): path for path in HOUSE.rglob("*.py")}


def imported(path: Path) -> set[str]:
    """Modules of ours, also those imported inside functions or for type checkers alone."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {_module(node.module, alias.name) for alias in node.names}
    ours = {name.removeprefix("limbeck").lstrip(".") for name in names if name.split(".")[0] == "limbeck"}
    return ours & MODULES.keys() - {"", name_of(path)}


def _module(package: str, name: str) -> str:
    """What `from package import name` imports: a module, or something inside the package."""
    inner = f"{package}.{name}"
    return inner if inner.removeprefix("limbeck.") in MODULES else package


GRAPH = {name: imported(path) for name, path in MODULES.items()}


def reached(start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        ahead += (new := GRAPH[ahead.pop()] - found)
        found |= new
    return found


def cycles() -> Iterator[set[str]]:
    """Modules that reach each other."""
    reach = {name: reached(name) for name in GRAPH}
    left = {name for name in GRAPH if name in reach[name]}
    while left:
        name = min(left)
        cycle = {other for other in reach[name] if name in reach[other]}
        left -= cycle
        yield cycle


def test_every_folder_is_a_known_room():
    assert {path.name for path in HOUSE.iterdir() if path.is_dir() and path.name != "__pycache__"} <= FLOOR.keys()


def test_rooms_import_only_to_their_left():
    pairs = [(name, other) for name in GRAPH for other in GRAPH[name] if name.split(".")[0] in FLOOR]
    wrong = [
        f"{name} imports {other}"
        for name, other in pairs
        if name.split(".")[0] != other.split(".")[0] and FLOOR[other.split(".")[0]] >= FLOOR[name.split(".")[0]]
    ]
    assert not wrong


def test_no_module_imports_itself_by_way_of_others():
    assert [sorted(cycle) for cycle in cycles()] == []
