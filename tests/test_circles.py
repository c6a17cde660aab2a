"""Nothing in the house imports itself by way of others, wherever in a file it imports them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

PACKAGES = ("phasewise", "phasewise_studies")
Graph = Mapping[str, Set[str]]


@pytest.fixture(scope="module")
def modules() -> Graph:
    """What each module imports; a comment for the type checker is no import."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def refuse_circles(graph: Graph) -> None:
    """Raise CycleError, which names one."""
    TopologicalSorter(graph).prepare()


def gather(modules: Graph, depth: int) -> Graph:
    """The same graph of packages: of modules whose names begin with the same `depth` parts."""
    packages: dict[str, set[str]] = {}
    for module, imported in modules.items():
        name, *others = (".".join(one.split(".")[:depth]) for one in (module, *imported))
        packages.setdefault(name, set()).update(other for other in others if other != name)
    return packages


def test_no_module_of_the_core_or_of_a_study_is_in_a_circle(modules: Graph) -> None:
    assert "phasewise.bench.timing" in modules["phasewise.bench.commands"] and len(modules) > 500
    # imported in a function
    assert "phasewise.bench.commands" in modules["phasewise.bench.worker"]
    refuse_circles(modules)


def test_no_package_of_the_core_and_no_study_is_in_a_circle(modules: Graph) -> None:
    packages = gather({name: imported for name, imported in modules.items() if name.count(".")}, 2)
    assert "phasewise.workers" in packages["phasewise.bench"] and "phasewise.kit" in packages["phasewise_studies.painn"]
    refuse_circles(packages)


def test_a_circle_by_way_of_another_module_or_package_is_found() -> None:
    planted = {"a.one.x": {"a.two.x"}, "a.two.x": {"a.three.x"}, "a.three.x": {"a.one.y"}, "a.one.y": set()}
    refuse_circles(planted)
    with pytest.raises(CycleError):
        refuse_circles(gather(planted, 2))
    with pytest.raises(CycleError):
        refuse_circles({**planted, "a.one.y": {"a.one.x"}})
