"""Rows of a table from a file: ``table(x, y) in "rows.csv"``.

The file is read once, when the rules are, and its rows are part of the rules from then on: printed and saved rules have
them in braces, and do not need the file. Rules from elsewhere, such as a saved model's, cannot name a file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dssl.errors import RuleError
from dssl.logic.language.formula import MAX_DIGITS
from dssl.logic.language.quoting import Value, in_quotes, quoted
from dssl.logic.language.tokens import Cursor, Source, Token, formatted
from dssl.logic.language.variables import Variable, listed, nearest, shown

MAX_ROWS = 100_000
MAX_BYTES = 10_000_000
_WHOLE = re.compile(rf"-?[0-9]{{1,{MAX_DIGITS}}}\Z")
_FLAGS = {"1": True, "0": False, "true": True, "false": False}
_IN_BRACES = "Write the rows in braces: table(x, y) in {(1, a), (2, b)}."


class FileRow(NamedTuple):
    """A row of a file, and the line where it ends."""

    line: int
    cells: tuple[str, ...]


@dataclass(slots=True, unsafe_hash=True)
class Listing(Token):
    """The name of a file, and the rows in it. Its text is that of the rows, so that what is printed needs no file."""

    name: str
    written: tuple[str, ...]  # the columns between the brackets of table(…), as they stand there
    header: tuple[str, ...] | None
    rows: tuple[FileRow, ...]

    def said(self, row: FileRow) -> str:
        """Where a row stands, for a message."""
        return f"line {row.line} of {in_quotes(shown(self.name))}"

    def order(self, columns: Sequence[Sequence[str]]) -> list[int]:
        """Where in a row each variable's value stands. `columns`: for each of `written`, its variables."""
        names = [name for group in columns for name in group]
        if self.header is None:
            return list(range(len(names)))
        file = in_quotes(shown(self.name))
        if len(self.header) != len(names):
            raise RuleError(
                f"a header of {len(self.header)} names for {len(names)} variables in {file}",
                remedy="Name each variable once, or remove the header.",
            )
        out = []
        for group, written in zip(columns, self.written):
            for name in group:
                calls = [name, *([written, _array(written)] if len(group) == 1 else [])]
                found = next((self.header.index(call) for call in calls if call in self.header), None)
                if found is None or found in out:
                    raise RuleError(
                        f"the header of {file} does not name '{shown(name)}'",
                        remedy=f"It names {listed(self.header)}: name each variable once, or remove the header.",
                    )
                out.append(found)
        return out


def value_of(variable: Variable, cell: str) -> Value:
    """The value that a cell names, or an error."""
    if variable.binary:
        if cell.lower() not in _FLAGS:
            raise RuleError(f"'{variable.name}' is binary and cannot be '{shown(cell)}'", remedy="Write 0 or 1.")
        return _FLAGS[cell.lower()]
    if cell in variable.positions:
        return cell
    if _WHOLE.match(cell) and int(cell) in variable.positions:
        return int(cell)
    raise RuleError(
        f"'{variable.name}' has no value '{shown(cell)}'",
        remedy=nearest(cell, map(str, variable.values)) + f"Its values: {listed(variable.values)}.",
    )


# ---- tokens ----


def with_rows(source: Source, lines: Sequence[list[Token]]) -> list[list[Token]]:
    """The statements, with the rows of a file in the place of its name."""
    return [_replaced(source, tokens) for tokens in lines]


def _replaced(source: Source, tokens: list[Token]) -> list[Token]:
    out = tokens
    for at, token in enumerate(tokens):
        if token.kind != "name" or token.text != "table" or tokens[at + 1].text != "(":
            continue
        closing = Cursor(source, tokens).closing(at + 1)
        after = tokens[closing + 1 : closing + 3]
        if len(after) == 2 and after[0].text == "in" and after[1].kind == "string":
            out = out if out is not tokens else list(tokens)
            out[closing + 2] = _listing(source, after[1], tokens[at + 2 : closing])
    return out


def _listing(source: Source, token: Token, between: list[Token]) -> Listing:
    name = Cursor(source, [token]).unquoted(token)
    rows = source.files.get(name)
    if rows is None:
        rows = source.files[name] = tuple(_rows(source, token, name))
    written = tuple(_columns(between))
    header = rows[0].cells if {_array(cell) for cell in rows[0].cells} <= {_array(text) for text in written} else None
    body = rows if header is None else rows[1:]
    if not body:
        source.fail(token.at, f"{in_quotes(shown(name))} has a header and no rows", "Give at least one row.")
    texts = (f"({', '.join(map(_cell_text, row.cells))})" for row in body)
    return Listing("file", f"{{{', '.join(texts)}}}", token.at, name, written, header, body)


def _columns(between: list[Token]) -> Iterator[str]:
    """The texts between the commas of table(…), commas in brackets aside."""
    depth, start = 0, 0
    for i, token in enumerate([*between, Token("op", ",", 0)]):
        depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "op" else 0
        if token.kind == "op" and token.text == "," and depth == 0:
            yield formatted(between[start:i]).replace(" ", "").strip('"')
            start = i + 1


def _array(name: str) -> str:
    """The name of the array, if a name has an index."""
    return name.partition("[")[0] if name.endswith("]") else name


def _cell_text(cell: str) -> str:
    if _WHOLE.match(cell):
        return str(int(cell))
    return cell.lower() if cell.lower() in _FLAGS else quoted(cell)


# ---- the file ----


def _rows(source: Source, token: Token, name: str) -> Iterator[FileRow]:
    """All rows of a file, a header included."""
    file, found = in_quotes(shown(name)), 0
    lines = csv.reader(_text(source, token, name).splitlines(), skipinitialspace=True, strict=True)
    while True:
        try:
            cells = next(lines, None)
        except csv.Error as error:
            source.fail(
                token.at, f"line {lines.line_num} of {file} cannot be read: {error}", "Separate cells by commas."
            )
        if cells is None:
            break
        row = FileRow(lines.line_num, tuple(cell.strip() for cell in cells))
        if not any(row.cells):
            continue
        if "" in row.cells:
            source.fail(token.at, f"an empty cell in line {row.line} of {file}", "A row is complete: fill it in.")
        found += 1
        if found > MAX_ROWS + 1:
            source.fail(
                token.at, f"{file} has more than {MAX_ROWS:,} rows", "Say by rules what the rows have in common."
            )
        yield row
    if not found:
        source.fail(token.at, f"{file} has no rows", "Give at least one row.")


def _text(source: Source, token: Token, name: str) -> str:
    file = in_quotes(shown(name))
    if source.folder is None:
        source.fail(token.at, f"this text must not name files, and it names {file}", _IN_BRACES)
    if "://" in name:
        source.fail(token.at, f"{file} is an address, not a file", "Download it, and name the file.")
    try:
        data = _bytes(Path(source.folder) / name)
    except FileNotFoundError:
        folder = in_quotes(str(source.folder))
        source.fail(token.at, f"there is no file {file}", f"The path is relative to the folder {folder}.")
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        why = error.strerror if isinstance(error, OSError) else error
        source.fail(token.at, f"{file} cannot be read: {why}", "Name a CSV file that you may read.")
    if data is None:
        source.fail(token.at, f"{file} is not a file", "Name a CSV file.")
    if len(data) > MAX_BYTES:
        source.fail(token.at, f"{file} has more than {MAX_BYTES:,} bytes", "Use fewer rows.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        source.fail(token.at, f"{file} is not UTF-8 text (byte {error.start})", "Save it as UTF-8.")


def _bytes(path: Path) -> bytes | None:
    """What is in a file, or a little more than is allowed; None for a folder or a device."""
    if path.exists() and not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
