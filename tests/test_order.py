"""The rooms and their order: a room imports only from rooms to its left."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

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
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(ORDER) for room in rooms}


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        rooms |= {name.split(".")[1] for name in names if name.startswith("limbeck.")}
    return rooms & FLOOR.keys()


def test_every_folder_is_a_known_room():
    assert {path.name for path in HOUSE.iterdir() if path.is_dir() and path.name != "__pycache__"} <= FLOOR.keys()


def test_rooms_import_only_to_their_left():
    wrong = [
        f"{path.relative_to(HOUSE)} imports {other}"
        for room in FLOOR
        for path in (HOUSE / room).rglob("*.py")
        for other in imported_rooms(path)
        if other != room and FLOOR[other] >= FLOOR[room]
    ]
    assert not wrong


def imported_modules(path: Path) -> set[str]:
    """Modules of the house, wherever the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("room", ["core", "engines", "teachers", "exporters", "tasks"])
def test_no_module_of_a_room_imports_itself_through_others(room):
    modules = {f"limbeck.{room}.{path.stem}": path for path in (HOUSE / room).glob("*.py")}
    graph = {name: (imported_modules(path) & modules.keys()) - {name} for name, path in modules.items()}
    tuple(TopologicalSorter(graph).static_order())  # raises a CycleError that names the modules
