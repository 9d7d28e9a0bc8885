"""The command that measures the house counts what it says it counts."""

from __future__ import annotations

import runpy
from pathlib import Path

HOUSE = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "house.py"))
BODY = [f"    x = first({i})" for i in range(6)]


def test_functions_are_measured_with_their_decorators_and_docstrings() -> None:
    text = (
        '@cache\ndef one():\n    """Says one."""\n    return 1\n\n\nclass Two:\n    def two(self):\n        return 2\n'
    )
    assert list(HOUSE["function_lengths"](text)) == [4, 2]


def test_lines_that_stand_twice_are_found_and_no_others() -> None:
    once = "\n".join(["import a", "def f():", *BODY, "    return x"])
    again = "\n".join(["def g():", "", "    # why", *BODY, "    return -x"])
    assert HOUSE["repeats"]([once, again]) == {(0, i) for i in range(3, 9)} | {(1, i) for i in range(4, 10)}
    assert HOUSE["repeats"]([once, "\n".join(["def g():", *BODY[:5]])]) == set()


def test_figures_of_a_small_tree(tmp_path: Path) -> None:
    source = tmp_path / "src" / "dssl"
    (source / "room").mkdir(parents=True)
    (source / "__init__.py").write_text('"""Map."""\n')
    (source / "room" / "a.py").write_text("def f():\n    return 1\n")
    (source / "room" / "b.py").write_text("def g():\n    return (\n        2\n    )\n")
    found = HOUSE["figures"](source)
    assert (found["lines of Python"], found["modules"], found["functions"]) == (7, 2, 2)
    assert (found["lines of the longest function"], found["  dssl/room/"]) == (4, 2)
