"""Which columns of a table are labels, what space they live in, and the labels themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssl.data.cells import cells, some_truth
from dssl.data.columns import require
from dssl.data.tables import Table
from dssl.data.transformer import Notes
from dssl.errors import DataError, RuleError, in_file
from dssl.logic.labels import Columns
from dssl.logic.language.formula import Is, Or
from dssl.logic.language.parser import Rule
from dssl.logic.language.variables import Variable, listed, nearest, shown
from dssl.logic.sources import read_text, variable_of
from dssl.logic.space import LabelSpace
from dssl.logic.validity import Violations

_UNKNOWN = "-1"  # besides an empty cell
_WHOLE = r"^(-?[1-9][0-9]{0,14}|0)(\.0*)?$"  # numbers without leading zeros, which make names: 007
_NUMBER = r"^-?[0-9]+([.,][0-9]+)?$"
# What may stand between the names of a cell, in the order in which it is looked for. How many different cells must have
# it; which share of their names must recur in other cells; and which share must be alone in some cell.
_SEPARATORS = {";": (2, 0.3, 0.0), ",": (2, 0.5, 0.1), " ": (3, 0.6, 0.2)}
_MANY = 20  # different numbers from which a label column looks like quantities
_LISTED = 10  # bad cells that a message shows
# Names in cells, from which a row's most probable set of names is often the empty one; and labelled cells, from which
# it is taken for a rule that none is empty.
_RARE, _SURE = 20, 20
OR, NOT = "|", "!"  # cat|dog: one of them; !cat: any other


@dataclass(frozen=True)
class Labelling:
    """Label columns of files ⇄ labels of an estimator.

    `columns` are the names in the file, `names` those in the space, in the same order. With a `separator`, there is
    one column whose cells hold the names of all variables that are true, and a cell that holds only separators, or
    "[]", says that none is.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    space: LabelSpace
    separator: str | None = None

    def read(self, table: Table, *, measured: bool = False) -> pl.DataFrame:
        """Labels as `DSSLClassifier` takes them, by the space's names; null where unknown."""
        known = self.encode(table, measured=measured)
        texts = self._texts(table)
        if self.separator is None and all(self._plain(name, texts[name]) for name in self.names):
            return texts
        told = np.asarray(~np.isnan(known).all(axis=0))  # what the rules alone decide is left to them
        values = np.where(np.isnan(known), -1, known).astype(np.int64)
        shown_columns = [(i, name) for i, name in enumerate(self.space.columns) if told[i]]
        return pl.DataFrame({n: pl.Series(values[:, i]).replace(-1, None) for i, n in shown_columns})

    def encode(self, table: Table, *, measured: bool = False) -> Columns:
        """Labels as columns (n, width) of the space; an error lists the entries that fit none of its values.

        In rows on which a model is only `measured`, cells of several names may hold names that the space does not have:
        a model cannot know them, and `missed` counts them.
        """
        if self.separator is not None:
            return self._encode_sets(table, measured)
        out = np.full((len(table), self.space.width), np.nan, np.float32)
        texts = self._texts(table)
        spans = {name: slice(i, i + 1) for i, name in enumerate(self.space.columns)}
        spans |= {v.name: slice(*span) for v, span in zip(self.space.variables, self.space.spans)}
        for name, column in zip(self.names, self.columns):
            variable, series = self._variable(name), texts[name]
            found = {value: _meaning(variable, value) for value in series.unique(maintain_order=True).drop_nulls()}
            bad = [value for value, meaning in found.items() if meaning is None]
            if bad:
                raise DataError(_odd_cells(table, column, series, variable, bad))
            for value, meaning in found.items():
                out[(series == value).fill_null(False).to_numpy(), spans[name]] = meaning
        return self.space.encode(out)

    def _variable(self, name: str) -> Variable:
        return next((v for v in self.space.variables if v.name == name), Variable(name))

    def _plain(self, name: str, texts: pl.Series) -> bool:
        """Whether cells hold values, and none says "one of these" or "not this"."""
        values = {str(value) for value in self._variable(name).values}
        return not any(_options(text) and text not in values for text in texts.unique().drop_nulls())

    def _texts(self, table: Table) -> pl.DataFrame:
        minus_one = {v.name for v in self.space.variables if -1 in v.values}
        found = {}
        for column, name in zip(self.columns, self.names):
            texts = _texts(table, column, name in minus_one)
            variable = self._variable(name)
            found[name] = _answers(texts) if variable.binary else _one_spelling(texts, map(str, variable.values))
        return pl.DataFrame(found)

    # ---- several names in a cell ----

    def never_empty(self, table: Table) -> Labelling:
        """The same with the rule that each row has a name, where cells hold many different ones and none is empty.

        Each of many rare names is improbable by itself, so the most probable set of them is often the empty one.
        """
        texts = _texts(table, self.columns[0]).drop_nulls()
        told = all(split(text, str(self.separator)) for text in texts.unique())
        if self.separator is None or self.space.rules or not told or texts.len() < _SURE or len(self.names) < _RARE:
            return self
        some = Or(tuple(Is(variable.name) for variable in self.space.variables))
        rule = Rule(some, why=f"learned: each of {texts.len():,} labelled rows has a name")
        return replace(self, space=self.space.where(rule))

    def missed(self, table: Table, notes: Notes) -> NDArray[np.int64]:
        """How many names of each row (n,) the space does not have, which no model in it can predict."""
        if self.separator is None:
            return np.zeros(len(table), np.int64)
        names = {v.name for v in self.space.variables}
        found = [set(split(text or "", self.separator)) - names for text in _texts(table, self.columns[0])]
        every = Counter(name for row in found for name in row)
        what = f"labels in '{self.columns[0]}' have names that training rows do not have, and count as missed: "
        notes.add(what, every.total(), listed(sorted(every), 6))
        return np.array([len(row) for row in found], np.int64)

    def _encode_sets(self, table: Table, measured: bool) -> Columns:
        column, names = self.columns[0], [v.name for v in self.space.variables]
        texts = _texts(table, column)
        place = {name: i for i, name in enumerate(names)}
        found: dict[str, NDArray[np.float32]] = {}
        odd: list[str] = []
        for text in texts.unique(maintain_order=True).drop_nulls():
            row = np.zeros(len(names), np.float32)
            for name in split(text, str(self.separator)):
                if name in place:
                    row[place[name]] = 1
                elif not measured:
                    odd.append(text)
            found[text] = row
        if odd:
            raise DataError(_odd_cells(table, column, texts, names, list(dict.fromkeys(odd)), self.separator))
        unknown = np.full(len(names), np.nan, np.float32)
        rows = [unknown if text is None else found[text] for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), len(names))


def _odd_cells(
    table: Table,
    column: str,
    texts: pl.Series,
    known: Variable | list[str],
    bad: list[str],
    separator: str | None = None,
) -> str:
    """The message about cells that hold no label: the first ten with their places, and how many there are."""
    binary = isinstance(known, Variable) and known.binary
    values = [str(v) for v in known.values] if isinstance(known, Variable) else known
    rows = np.flatnonzero(texts.is_in(bad).fill_null(False).to_numpy())
    where = [f"  {table.place(int(r))}: '{shown(texts[int(r)])}'" for r in rows[:_LISTED]]
    more = [f"  … {len(rows):,} in all"] if len(rows) > _LISTED else []
    parts = bad if separator is None else [p for b in bad for p in split(b, separator) if p not in values]
    hints = (
        []
        if binary
        else [hint for part in dict.fromkeys(parts) if not _options(part) and (hint := nearest(part, values))][:1]
    )
    allowed = "0, 1, true, false, yes, no" if binary else listed(values)
    called = known.name if isinstance(known, Variable) else column
    if len(rows) == 1:
        first = (
            f"'{table.path}', {table.place(int(rows[0]))}, column '{column}': '{called}' cannot be '{shown(parts[0])}'"
        )
        return f"{first}\n{''.join(hints)}Allowed: {allowed}; empty for unknown."
    first = f"'{table.path}', column '{column}': {len(rows):,} cells hold no value of '{called}'"
    return "\n".join([first, *where, *more, f"{''.join(hints)}Allowed: {allowed}; empty for unknown."])


def _meaning(variable: Variable, text: str) -> NDArray[np.float32] | None:
    """One cell as columns of its variable, or None if it fits no value: a value, one of several, or not one."""
    space = LabelSpace.of([variable])
    try:
        return np.asarray(space.encode([{variable.name: text}])[0])
    except DataError:
        if variable.binary or not (options := _options(text)):
            return None
    each = [_meaning(variable, option) for option in options]
    if any(one is None for one in each):
        return None
    possible = np.array(each).max(axis=0) == 1
    possible = ~possible if text.startswith(NOT) else possible
    out = np.where(possible, np.nan, 0).astype(np.float32)
    if possible.sum() == 1:
        out[possible] = 1
    return out if possible.any() else None


def _options(text: str) -> list[str]:
    """The values that a cell such as cat|dog or !cat names; none for others."""
    if text.startswith(NOT):
        return [part.strip().removeprefix(NOT) for part in text.split(OR)] if len(text) > 1 else []
    parts = [part.strip() for part in text.split(OR)]
    return parts if len(parts) > 1 and all(parts) else []


def _answers(texts: pl.Series) -> pl.Series:
    """Yes and no as 1 and 0, other texts as they are."""
    numbers = some_truth(texts).cast(pl.Int8).cast(pl.String)
    return pl.select(pl.coalesce(numbers, texts)).to_series().alias(texts.name)


def _one_spelling(texts: pl.Series, values: Iterable[str]) -> pl.Series:
    """Texts in which each answer has one spelling, if two classes are called yes and no in any language.

    >>> _one_spelling(pl.Series(["Yes", "no", "ja", None]), ["yes", "no"]).to_list()
    ['yes', 'no', 'yes', None]
    """
    spelt = pl.Series(list(values), dtype=pl.String)
    truth = dict(zip(some_truth(spelt).to_list(), spelt))
    if spelt.len() != 2 or set(truth) != {0.0, 1.0}:
        return texts
    answers = some_truth(texts).replace_strict(truth, default=None, return_dtype=pl.String)
    return pl.select(pl.coalesce(answers, texts)).to_series().alias(texts.name)


def _spellings(texts: pl.Series) -> list[str]:
    """The most frequent spellings of yes and no, in a column that holds nothing else; none for others."""
    counts = texts.drop_nulls().alias("text").value_counts(sort=True).sort("count", "text", descending=[True, False])
    truth = some_truth(counts["text"])
    if truth.null_count() or truth.n_unique() != 2:
        return []
    return [counts["text"].filter(truth == answer)[0] for answer in (0.0, 1.0)]


def _texts(table: Table, column: str, minus_one: bool = False) -> pl.Series:
    """A label column as texts, whole numbers without a point, null where unknown; `minus_one`: −1 is a value."""
    if column not in table.names:
        return pl.Series([None] * len(table), dtype=pl.String)
    series = cells(table.frame[column])
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int8)
    if series.dtype.is_nested():
        raise DataError(
            f"'{table.path}': the label column '{column}' holds lists or records ({shown(str(series.dtype))})\n"
            "Write one column per label, or the names of a row in one text, with ; between them."
        )
    texts = series.cast(pl.String)
    if texts.drop_nulls().str.contains(_WHOLE).all():
        texts = texts.cast(pl.Float64).cast(pl.Int64).cast(pl.String)
    return texts if minus_one else texts.set(texts == _UNKNOWN, None)


def _classes(texts: pl.Series) -> NDArray[Any]:
    """Classes as whole numbers if all are, else as names; None where unknown."""
    numbers = texts.cast(pl.Int64, strict=False)
    whole = bool((numbers.cast(pl.String) == texts).drop_nulls().all()) and numbers.null_count() == texts.null_count()
    return np.array((numbers if whole else texts).to_list(), dtype=object)


# ---- several names in a cell ----


def split(text: str, separator: str) -> list[str]:
    """The names in a cell.

    >>> split("wheat; corn;", ";"), split("[]", ";")
    (['wheat', 'corn'], [])
    """
    return [] if text == "[]" else [part.strip() for part in text.split(separator) if part.strip()]


def find_separator(texts: pl.Series) -> str | None:
    """What stands between the names of a cell, if cells hold several: names that recur, alone or with others.

    >>> find_separator(pl.Series(["wheat corn", "corn", "wheat", "oil corn", "oil wheat"]))
    ' '
    >>> find_separator(pl.Series(["New York", "Berlin", "New Delhi"])) is None
    True
    """
    found = texts.unique().drop_nulls().to_list()
    for separator, (cells_, again, alone) in _SEPARATORS.items():
        several = [split(text, separator) for text in found if separator in text]
        single = {text for text in found if separator not in text}
        times = Counter(part for names in several for part in names)
        parts = sum(times.values())
        repeated = sum(count for part, count in times.items() if part in single or count > 1)
        known = sum(count for part, count in times.items() if part in single)
        if len(several) >= cells_ and repeated >= again * parts and known >= alone * parts:
            return separator
    return None


def _sets(table: Table, column: str, separator: str, space: LabelSpace | None = None) -> Labelling:
    names = {part for text in _texts(table, column).unique().drop_nulls() for part in split(text, separator)}
    if not names:
        raise DataError(f"the label column '{column}' is empty\nLabel some rows, or leave it out of --label.")
    space = space or LabelSpace.of(Variable(name) for name in sorted(names))
    return Labelling((column,), tuple(v.name for v in space.variables), space, separator)


# ---- finding them ----


def folded(name: str) -> str:
    """A name as people mean it: in lower case, without spaces around it."""
    return " ".join(name.split()).casefold()


def alike(name: str, names: Iterable[str]) -> list[str]:
    """The names that mean the same: this very name, or all that differ only in spaces and capitals."""
    every = list(names)
    return [name] if name in every else [other for other in every if folded(other) == folded(name)]


def find_labels(
    table: Table, label: Sequence[str] | None, rules: Path | None, separator: str | None = None
) -> Labelling:
    """The label columns: those named, those that the rules name, or those that the format marks.

    A column may differ from what was asked for in spaces around it and in capitals. `separator` stands between the
    names of a cell; None: detect it; empty: cells hold one name.
    """
    label = None if label is None else [_column(table, name) for name in label]
    if separator and (label is None or len(label) != 1):
        raise DataError(
            f"--label-separator is for one label column, and there are {len(label or ())}\nGive --label COLUMN with it."
        )
    above = table.hierarchy if not label or tuple(label) == table.labels else None
    if rules is None:
        return _without_rules(table, label, separator) if above is None else _below(table, LabelSpace.hierarchy(above))
    text = read_text(rules)
    try:
        if above is not None:
            return _below(table, LabelSpace.hierarchy(above).where(text))
        return _with_rules(table, label, text, rules, separator)
    except RuleError as error:
        raise in_file(error, rules) from None


def _below(table: Table, space: LabelSpace) -> Labelling:
    """Labels of a file that has its own hierarchy of classes."""
    return Labelling(table.labels, tuple(v.name for v in space.variables), space, "@")


def _column(table: Table, name: str) -> str:
    """The column of a table that this name means."""
    found = alike(name, table.names)
    if len(found) > 1:
        raise DataError(
            f"'{table.path}' has several columns named like '{name}': {listed(repr(n) for n in found)}\n"
            "Name one of them exactly: --label COLUMN."
        )
    require(table, found or [name], "--label")
    return found[0]


def _without_rules(table: Table, label: Sequence[str] | None, separator: str | None) -> Labelling:
    columns = tuple(label or table.labels)
    if not columns:
        raise DataError(
            f"it is not clear which column of '{table.path}' is the label\n"
            f"Give --label COLUMN, or --rules FILE whose variables have the names of columns. Its columns: "
            f"{listed(table.names, 12)}."
        )
    one = len(columns) == 1
    if one and separator is None:
        separator = find_separator(_texts(table, columns[0]))
    if one and separator:
        return _sets(table, columns[0], separator)
    space = LabelSpace.of(_variable(name, _texts(table, name), classes=one) for name in columns)
    if one and space.width == 1:
        raise DataError(
            f"'{table.path}': every label in column '{columns[0]}' is {space.variables[0].values[0]}\n"
            "Label rows of at least two classes."
        )
    return Labelling(columns, columns, space)


def _variable(name: str, texts: pl.Series, classes: bool = False) -> Variable:
    """The variable that a column describes: binary where all entries are 0 and 1, unless classes are wanted."""
    texts = _one_spelling(texts, _spellings(texts)) if classes else _answers(texts)
    values = set(texts.drop_nulls().unique().to_list())
    if not values:
        raise DataError(f"the label column '{name}' is empty\nLabel some rows, or leave it out of --label.")
    values -= {value for value in values if _options(value) and set(_options(value)) <= values}
    _refuse_quantities(name, pl.Series(sorted(values)), texts)
    ordered = sorted(_classes(pl.Series(sorted(values))).tolist())
    return Variable.choice(name, ordered) if classes else variable_of(name, ordered)


def _refuse_quantities(name: str, values: pl.Series, texts: pl.Series) -> None:
    """An error where labels look like amounts: each of them would become a class."""
    known, whole = texts.len() - texts.null_count(), bool(values.str.contains(_WHOLE).all())
    if values.len() <= _MANY or not values.str.contains(_NUMBER).all() or (whole and values.len() <= known / 5):
        return
    raise DataError(
        f"the label column '{name}' holds {values.len():,} different numbers in {known:,} labelled rows, such as "
        f"{', '.join(values.head(3))}: amounts, not classes?\n"
        "dssl predicts classes. Put them into a few ranges first, such as low, middle and high; if they are classes, "
        "declare them in a rules file."
    )


def _with_rules(table: Table, label: Sequence[str] | None, text: str, rules: Path, separator: str | None) -> Labelling:
    if label and len(label) == 1 and separator is None:
        separator = find_separator(_texts(table, label[0])) or _names_of(text, _texts(table, label[0]))
    if label and separator:
        own = _sets(table, label[0], separator)
        return _sets(table, label[0], separator, _space(text, list(own.space.variables)))
    if label:
        declared = [_variable(name, _texts(table, name)) for name in label]
        space = _space(text, declared)
    else:
        space = LabelSpace(text)
    names = [v.name for v in space.variables]
    if label and len(label) == len(names) == 1:
        return Labelling(tuple(label), tuple(names), space)
    if not label and len(table.labels) == len(names) and not set(names) <= set(table.names):
        return Labelling(table.labels, tuple(names), space)  # arrays have no names: they follow the rules' order
    return _columns_named(table, label, space, rules)


def _names_of(text: str, texts: pl.Series) -> str | None:
    """A separator if cells hold one name each, all of them yes-or-no variables of the rules."""
    try:
        space = LabelSpace(text)
    except RuleError:
        return None
    binary = {v.name for v in space.variables if v.binary}
    cells_ = set(texts.unique().drop_nulls())
    return ";" if len(space.variables) > 1 and cells_ and cells_ <= binary else None


def _columns_named(table: Table, label: Sequence[str] | None, space: LabelSpace, rules: Path) -> Labelling:
    """Label columns that have the names of the rules' variables, or of their values."""
    names = [v.name for v in space.variables]
    known = list(dict.fromkeys([*names, *space.columns]))
    pairs = [(column, name) for name in known for column in alike(name, label or table.names)]
    strange = [column for column in label or () if column not in [c for c, _ in pairs]]
    if strange or not pairs:
        raise DataError(
            f"'{rules}' is about {listed(names, 12)}, and "
            + (f"not about the label column '{strange[0]}'" if strange else f"'{table.path}' has no such column")
            + f"\nGive them the same names, or name the label columns: --label COLUMN. "
            f"Columns: {listed(table.names, 12)}."
        )
    twice = [name for name, count in Counter(name for _, name in pairs).items() if count > 1]
    if twice:
        both = listed(repr(column) for column, name in pairs if name == twice[0])
        raise DataError(
            f"'{table.path}' has several columns named like '{twice[0]}' of '{rules}': {both}\n"
            "Rename one of them, or give it to --ignore."
        )
    pairs.sort(key=lambda pair: (label or table.names).index(pair[0]))
    return Labelling(tuple(column for column, _ in pairs), tuple(name for _, name in pairs), space)


def _space(text: str, declared: list[Variable]) -> LabelSpace:
    """A space from rule text; where it declares no variables, the label columns do."""
    try:
        return LabelSpace(text)
    except RuleError as error:
        if "not declared" not in error.reason:
            raise
        try:
            return LabelSpace.of(declared).where(text)
        except RuleError:
            raise error from None


# ---- labels that break rules ----


def broken(found: Violations, table: Table, rows: NDArray[np.int64]) -> str:
    """Which rows of a file break which rules; `rows` are the places in the file of the rows that were checked."""
    lines = [f"'{table.path}': the labels of {len(found):,} of {len(found.invalid):,} rows break the rules"]
    bad = found.broken | found.jointly
    for i, rule in enumerate(found.rules):
        where = [table.place(int(rows[row])) for row in np.flatnonzero(bad[:, i])]
        if where:
            lines.append(f"  {rule}\n    {listed(where, 6)}")
    return "\n".join(lines)


def label_frame(table: Table, columns: Sequence[str]) -> pl.DataFrame:
    """Label columns as they are meant: whole numbers or texts, null where unknown; 1 and 0 for cells of many names."""
    separator = find_separator(_texts(table, columns[0])) if len(columns) == 1 else None
    if separator:
        return _sets(table, columns[0], separator).read(table)
    out = {}
    for name in columns:
        texts = _texts(table, name)
        values = _classes(texts)
        out[name] = pl.Series(name, values.tolist(), None if any(v is not None for v in values) else pl.Int64)
    return pl.DataFrame(out)
