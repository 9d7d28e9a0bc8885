"""A trained model at work on files: the model of a run, its preprocessing, and labels in and out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dssl.app.columns import require
from dssl.app.labelling import Labelling
from dssl.app.preprocessing import Findings, Preprocessing
from dssl.app.runs import model_folder
from dssl.app.tables import PART, Table, stream
from dssl.errors import DataError
from dssl.logic.labels import Columns

if TYPE_CHECKING:
    from torch import Tensor

    from dssl.app.measures import Part
    from dssl.training.estimators import DSSLClassifier


@dataclass(frozen=True)
class Trained:
    """A model and what it needs to read files. `findings` collects what had to be put right in them."""

    model: DSSLClassifier
    preprocessing: Preprocessing
    findings: Findings = field(default_factory=Findings)

    @classmethod
    def open(cls, path: Path) -> Trained:
        """The model of a run folder, or one saved from Python."""
        from dssl.training.model import load

        folder, beside = model_folder(path)
        model = load(folder)
        if beside is not None:
            preprocessing = Preprocessing.load(beside)
            shape = preprocessing.image or (len(preprocessing.inputs),)
            if shape != tuple(model.input_shape_):
                raise DataError(
                    f"'{beside}' makes inputs of shape {shape}, the model takes {tuple(model.input_shape_)}\n"
                    "Fetch an intact copy of the run, or fit anew."
                )
            return cls(model, preprocessing)
        names = getattr(model, "feature_names_in_", None)
        if len(model.input_shape_) > 1:
            image: Any = tuple(model.input_shape_)
            return cls(model, Preprocessing(image=image))
        features = [f"x{i}" for i in range(model.n_features_in_)] if names is None else names.tolist()
        return cls(model, Preprocessing.of_names(features, [v.name for v in model.space_.variables]))

    def parts(self, data: Path) -> Iterator[Table]:
        """The rows of a file, a part at a time."""
        image = self.preprocessing.image
        return stream(data, image[1:] if image else None, image[0] if image else None, PART)

    # ---- labels out ----

    def predict(self, table: Table, row_id: str | None, *, proba: bool = False) -> pl.DataFrame:
        """A row for each of the table's: its name, the most probable valid label, and probabilities if asked for."""
        logits = self._logits(table)
        columns: dict[str, Any] = self._names(table, row_id) | self._labels(self.model.decoder_.best(logits))
        if proba:
            p = np.round(self.model.decoder_.marginals(logits).astype(np.float64), 6)
            columns |= {f"P({name})": p[:, i].tolist() for i, name in enumerate(self.model.space_.columns)}
        return pl.DataFrame(columns)

    def sample(self, table: Table, row_id: str | None, n: int, seed: int) -> pl.DataFrame:
        """n labels for each row, one below the other, drawn from what the model believes, given the rules."""
        drawn = self.model.decoder_.sample(self._logits(table), n, seed)  # (n, rows, width)
        place = np.repeat(np.arange(len(table)), n)
        names = {name: column.gather(place) for name, column in self._names(table, row_id).items()}
        labels = self._labels(drawn.transpose(1, 0, 2).reshape(-1, drawn.shape[2]))
        return pl.DataFrame(names | {"sample": list(range(1, n + 1)) * len(table)} | labels)

    def _logits(self, table: Table) -> Tensor:
        x: Any = self.preprocessing(table, self.findings)
        if hasattr(self.model, "feature_names_in_"):
            x = pl.DataFrame(x, schema=self.preprocessing.inputs)
        return self.model._logits(x)

    def _names(self, table: Table, row_id: str | None) -> dict[str, pl.Series]:
        """The column that names the rows, of one type in all parts of a file, also where it is empty."""
        if row_id is not None:
            require(table, [row_id], "--id")
            return {row_id: table.frame[row_id]}
        start = table.first - (1 if table.format in ("CSV", "TSV") else 0)  # rows count from 1, the header is none
        return {"row": pl.Series(range(start, start + len(table)))}

    def _labels(self, columns: Columns) -> dict[str, list[Any]]:
        """Labels (n, width) by the names that the label columns of the training file had."""
        called = dict(zip(self.preprocessing.label_names, self.preprocessing.labels))
        values = self.model.space_.decode(columns, "values")
        out = {}
        for i, variable in enumerate(self.model.space_.variables):
            column = values[:, i].astype(int) if variable.binary else values[:, i]
            out[called.get(variable.name, variable.name)] = column.tolist()
        return out

    # ---- labels in ----

    def labelling(self) -> Labelling:
        """How label columns of files are read into the model's space."""
        space, saved = self.model.space_, self.preprocessing
        names = saved.label_names or tuple(v.name for v in space.variables)
        return Labelling(saved.labels or names, names, space)

    def measure(self, data: Path) -> Part:
        """What the model says of a labelled file's rows, and what is known of them."""
        import torch

        from dssl.app.measures import Part

        labelling = self.labelling()
        known, logits = [], []
        for table in self.parts(data):
            if not set(labelling.columns) & set(table.names):
                if len(table.labels) != len(labelling.columns):
                    require(table, labelling.columns[:1], "the label")
                labelling = replace(labelling, columns=table.labels)
            logits.append(self._logits(table))
            known.append(labelling.encode(table))
        y = np.concatenate(known)
        if np.isnan(y).all():
            raise DataError(f"'{data}' has no labelled row to measure on\nGive labelled rows.")
        return Part("test", len(y), np.arange(len(y)), y, torch.cat(logits), self.model.decoder_)
