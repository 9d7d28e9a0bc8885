"""A trained model at work on files: the model of a run, its preprocessing, and labels in and out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dssl.app.runs import model_folder
from dssl.data.columns import require
from dssl.data.labelling import Labelling, alike
from dssl.data.preprocessing import Preprocessing
from dssl.data.tables import CHUNK, Table, stream
from dssl.data.transformer import Notes
from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.language.variables import listed, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from dssl.app.measures import Part
    from dssl.models.estimators import DSSLClassifier


@dataclass(frozen=True)
class Trained:
    """A model and what it needs to read files. `notes` collects what had to be corrected in files."""

    model: DSSLClassifier
    preprocessing: Preprocessing
    notes: Notes = field(default_factory=Notes)

    @classmethod
    def open(cls, path: Path) -> Trained:
        """The model of a run folder, or one saved from Python."""
        from dssl.models.files.saved import load

        folder, beside = model_folder(path)
        model = load(folder)
        if beside is not None:
            preprocessing = Preprocessing.load(beside)
            shape: tuple[int, ...] = preprocessing.image or (len(preprocessing.inputs),)
            if shape != tuple(model.input_shape_):
                raise DataError(
                    f"'{beside}' makes inputs of shape {shape}, and the model takes {tuple(model.input_shape_)}\n"
                    "Fetch an intact copy of the run, or fit again."
                )
            return cls(model, preprocessing)
        names = getattr(model, "feature_names_in_", None)
        if len(model.input_shape_) > 1 or model.elements_ is not None:
            return cls(model, Preprocessing(image=tuple(model.input_shape_)))
        features = [f"x{i}" for i in range(model.n_features_in_)] if names is None else names.tolist()
        return cls(model, Preprocessing.of_names(features, [v.name for v in model.space_.variables]))

    def chunks(self, data: Path) -> Iterator[Table]:
        """The rows of a file, a chunk at a time."""
        size, channels = self.preprocessing.picture
        return stream(data, size, channels, CHUNK)

    # ---- labels out ----

    def predict(
        self, table: Table, row_id: str | None, *, proba: bool = False, evidence: Columns | None = None
    ) -> pl.DataFrame:
        """One row for each of the table's: its name, the most probable valid label, and probabilities if asked for."""
        logits = self._logits(table)
        best = self.model.decoder_.best(logits, evidence)
        columns: dict[str, Any] = self._names(table, row_id) | self._labels(best)
        if proba:
            p = np.round(self.model.decoder_.marginals(logits, evidence).astype(np.float64), 6)
            columns |= {f"P({name})": p[:, i].tolist() for i, name in enumerate(self.model.space_.columns)}
        return pl.DataFrame(columns)

    def sample(
        self, table: Table, row_id: str | None, n: int, seed: int, evidence: Columns | None = None
    ) -> pl.DataFrame:
        """n labels for each row, drawn from the predicted distribution given the rules."""
        drawn = self.model.decoder_.sample(self._logits(table), n, seed, evidence)  # (n, rows, width)
        place = np.repeat(np.arange(len(table)), n)
        names = {name: column.gather(place) for name, column in self._names(table, row_id).items()}
        labels = self._labels(drawn.transpose(1, 0, 2).reshape(-1, drawn.shape[2]))
        return pl.DataFrame(names | {"sample": list(range(1, n + 1)) * len(table)} | labels)

    def _logits(self, table: Table) -> Tensor:
        x: Any = self.preprocessing(table, self.notes)
        if hasattr(self.model, "feature_names_in_"):
            x = pl.DataFrame(x, schema=self.preprocessing.inputs)
        return self.model._logits(x)

    def _names(self, table: Table, row_id: str | None) -> dict[str, pl.Series]:
        """The column that names the rows, of the same type in all chunks of a file, even where it is empty."""
        if row_id is not None:
            require(table, [row_id], "--id")
            return {row_id: table.frame[row_id]}
        return {"row": pl.Series(range(table.first, table.first + len(table)))}

    def _labels(self, columns: Columns) -> dict[str, list[Any]]:
        """Labels (n, width) by the names that the label columns of the training file had."""
        called = dict(zip(self.preprocessing.label_names, self.preprocessing.labels))
        values = self.model.space_.decode(columns, "values")
        if self.preprocessing.separator is not None:
            return {self.preprocessing.labels[0]: self._sets(values)}
        out = {}
        for i, variable in enumerate(self.model.space_.variables):
            column = values[:, i].astype(int) if variable.binary else values[:, i]
            out[called.get(variable.name, variable.name)] = column.tolist()
        return out

    def _sets(self, values: Any) -> list[str]:
        """The names of what is true, in one text per row."""
        names, between = [v.name for v in self.model.space_.variables], str(self.preprocessing.separator)
        return [between.join(name for name, true in zip(names, row) if true) or "[]" for row in values]

    # ---- labels in ----

    def evidence(self, table: Table, columns: Sequence[str]) -> Columns:
        """What these label columns of a table say about its rows; an error names the line that breaks the rules."""
        every = self.labelling()
        names = dict(zip(every.columns, every.names))
        called = {**{name: column for column, name in names.items()}, **{column: column for column in names}}
        meant = [{called[name] for name in alike(column, called)} for column in columns]
        strange = [column for column, found in zip(columns, meant) if len(found) != 1]
        if strange:
            raise DataError(
                f"--evidence-columns: '{strange[0]}' is not a label of the model\n"
                f"{nearest(strange[0], names)}Its labels: {listed(names, 12)}."
            )
        asked = dict.fromkeys(name for found in meant for name in found)
        told = in_table(replace(every, columns=tuple(asked), names=tuple(names[c] for c in asked)), table)
        require(table, told.columns, "--evidence-columns")
        known = told.encode(table)
        for row, rules in self.model.decoder_.contradicted(known).items():
            raise DataError(
                f"'{table.path}', {table.place(row)}: the evidence contradicts the rules: {rules}\n"
                "Correct the line, or leave cells empty that are unknown."
            )
        return known

    def labelling(self) -> Labelling:
        """How label columns of files are read into the model's space."""
        space, saved = self.model.space_, self.preprocessing
        names = saved.label_names or tuple(v.name for v in space.variables)
        return Labelling(saved.labels or names, names, space, saved.separator)

    def measure(self, data: Path) -> Part:
        """What the model predicts for the rows of a labelled file, and what is known of them."""
        import torch

        from dssl.app.measures import Part

        labelling = self.labelling()
        known, logits, missed = [], [], []
        for table in self.chunks(data):
            labelling = in_table(labelling, table)
            if not set(labelling.columns) & set(table.names):
                if len(table.labels) != len(labelling.columns):
                    require(table, labelling.columns[:1], "the label")
                labelling = replace(labelling, columns=table.labels)
            logits.append(self._logits(table))
            known.append(labelling.encode(table, measured=True))
            missed.append(labelling.missed(table, self.notes))
        y = np.concatenate(known)
        if np.isnan(y).all():
            raise DataError(f"'{data}' has no labelled row to measure on\nGive labelled rows.")
        return Part(
            "test", len(y), np.arange(len(y)), y, torch.cat(logits), self.model.decoder_, np.concatenate(missed)
        )


def in_table(labelling: Labelling, table: Table) -> Labelling:
    """The same with its columns named as a table has them, which may differ in capitals and in spaces around names."""
    found = [alike(column, table.names) for column in labelling.columns]
    named = tuple(same[0] if len(same) == 1 else own for own, same in zip(labelling.columns, found))
    return replace(labelling, columns=named)


@dataclass(frozen=True)
class Question:
    """What is asked of each row: as the flags of `dssl predict`."""

    row_id: str | None = None
    proba: bool = False
    sample: int | None = None
    seed: int = 0
    evidence: tuple[str, ...] = ()

    def answer(self, trained: Trained, table: Table, number: int) -> pl.DataFrame:
        """Labels for the rows of a chunk, the `number`-th of its file."""
        kept = trained.preprocessing.id
        name = self.row_id or (kept if kept in table.names else None)
        known = trained.evidence(table, self.evidence) if self.evidence else None
        if self.sample is None:
            return trained.predict(table, name, proba=self.proba, evidence=known)
        return trained.sample(table, name, self.sample, self.seed + number, known)
