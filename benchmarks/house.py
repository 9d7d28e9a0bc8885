"""How large the house is: lines, modules per folder, lengths of functions, and lines that stand in two places.

    python benchmarks/house.py            # this tree
    python benchmarks/house.py OTHER      # another checkout, to compare with

Lines are those of the files, with docstrings and comments. A function's length counts its decorators, docstring and
body. A repeat is a run of six or more lines of code that stand, word for word, in another place too; imports, comments
and lone brackets do not count.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

RUN = 6  # lines that make a repeat
_THIN = re.compile(r'(#.*|[\]\[(){},:]*|"""|@\w+)')


def main() -> None:
    """Prints the figures of a checkout as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parent.parent, help="folder with src/dssl")
    for name, value in figures(parser.parse_args().tree / "src" / "dssl").items():
        print(f"{name:44}{value:>8,}")


def figures(source: Path) -> dict[str, int]:
    """What is counted, by name."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    lengths = sorted(length for text in files.values() for length in function_lengths(text))
    folders = Counter(path.parent for path in files if path.name not in ("__init__.py", "__main__.py"))
    return {
        "lines of Python": sum(text.count("\n") for text in files.values()),
        "modules": sum(folders.values()),
        "lines of the longest module": max(text.count("\n") for text in files.values()),
        "functions": len(lengths),
        "lines of a function, median": quantile(lengths, 0.5),
        "lines of a function, 90 %": quantile(lengths, 0.9),
        "lines of the longest function": lengths[-1],
        "lines that repeat others": len(repeats(list(files.values()))),
        "modules of the fullest folder": max(folders.values()),
        **{f"  {_called(path, source)}": n for path, n in sorted(folders.items())},
    }


def _called(folder: Path, source: Path) -> str:
    return f"{source.name}/{folder.relative_to(source).as_posix()}".removesuffix("/.") + "/"


def function_lengths(text: str) -> Iterator[int]:
    """Lines of each function and method of a module, those inside others too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield (node.end_lineno or node.lineno) - first + 1


def quantile(lengths: Sequence[int], share: float) -> int:
    """The length that this share of the functions does not exceed."""
    return lengths[min(len(lengths) - 1, int(share * len(lengths)))]


def imports(text: str) -> Iterator[int]:
    """The numbers of the lines of a module's imports, also of those that take several lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def repeats(texts: Sequence[str]) -> set[tuple[int, int]]:
    """The lines (number of the text, number of the line) that belong to a repeat."""
    places: dict[tuple[str, ...], list[list[tuple[int, int]]]] = defaultdict(list)
    for t, text in enumerate(texts):
        lines = [(i, " ".join(line.split())) for i, line in enumerate(text.split("\n"), 1)]
        imported = set(imports(text))
        told = [(i, line) for i, line in lines if i not in imported and not _THIN.fullmatch(line)]
        for start in range(len(told) - RUN + 1):
            run = told[start : start + RUN]
            places[tuple(line for _, line in run)].append([(t, i) for i, _ in run])
    return {place for found in places.values() if len(found) > 1 for run in found for place in run}


if __name__ == "__main__":
    main()
