"""What other rules would do to a run: labels that break them, predictions that change, rules that labels suggest."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dssl.app.explorer.desk import Desk
from dssl.app.explorer.spaces import Malformed, open_text, text_in
from dssl.app.measures import complete, label_text
from dssl.errors import DataError, RuleError
from dssl.files import write_whole
from dssl.logic.induction.learning import learn_rules
from dssl.logic.labels import Columns
from dssl.logic.language.variables import listed
from dssl.logic.space import LabelSpace
from dssl.models.decoding import Decoder

MOST_ROWS = 5_000  # from the top of the file, that are looked at
LISTED = 20  # rows, and proposals
_BUDGET = 200_000  # clauses that are tried
_MOST_VARIABLES = 60  # among which rules are looked for


class Looked(NamedTuple):
    """Rows of the data: numbers, what is known of them, answers included, and what the network says."""

    numbers: NDArray[np.int64]
    known: Columns
    logits: Tensor


class Effects:
    """The calls of the Rules tab for a run."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.space = desk, desk.space

    def handlers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        return {"effects": self.effects, "proposals": self.proposals, "keep": self.keep}

    @cached_property
    def _rows(self) -> tuple[NDArray[np.int64], Columns, Tensor]:
        import torch

        trained, data = self.desk.run.trained, self.desk.run.data
        assert data is not None  # the desk's file was asked for first
        numbers, known, logits, rows = [], [], [], 0
        for chunk in trained.chunks(data):
            some = chunk.slice(0, min(len(chunk), MOST_ROWS - rows))
            numbers.append(some.first + np.arange(len(some)))
            known.append(trained.labelling().encode(some))
            logits.append(trained._logits(some))
            rows += len(some)
            if rows >= MOST_ROWS:
                break
        return np.concatenate(numbers), np.concatenate(known), torch.cat(logits)

    def looked(self) -> Looked:
        """The rows with the answers that hold now."""
        rows, columns = self.desk.file.labels()
        numbers, known, logits = self._rows
        known = known.copy()
        place = {int(number): i for i, number in enumerate(numbers)}
        for row, told in zip(rows, columns):
            if row in place:
                known[place[row]] = told
        return Looked(numbers, known, logits)

    # ---- effects ----

    def effects(self, request: dict[str, Any]) -> dict[str, Any]:
        """Labels that break rules of this text, and predictions that would change by decoding with them."""
        try:
            space = open_text(text_in(request)).space
        except RuleError:
            return {"other": "the text has an error"}
        other = different(self.space, space)
        if other is not None:
            return {"other": other}
        rows = self.looked()
        broken = space.check(rows.known) if space.rules else ()
        listed_rows = [{"row": int(rows.numbers[row]), "rules": [str(rule) for rule in rules]} for row, rules in broken]
        before = self.desk.run.trained.model.decoder_.best(rows.logits)
        after = Decoder(space, components=self.desk.run.trained.model.decoder_.components).best(rows.logits)
        return {"broken": len(listed_rows), "broken_rows": listed_rows[:LISTED], **moved(space, rows, before, after)}

    def proposals(self, request: dict[str, Any]) -> dict[str, Any]:
        """Rules that labels and answers obey, and would not by chance, beyond those of this text."""
        try:
            space = open_text(text_in(request)).space
        except RuleError:
            return {"rules": []}
        other = different(self.space, space)
        if other is not None:
            return {"other": other}
        if len(space.variables) > _MOST_VARIABLES:
            return {"other": f"rules are looked for among up to {_MOST_VARIABLES} variables; see dssl rules learn"}
        known = self.looked().known
        told = known[~np.isnan(known).all(axis=1)]
        fine = np.ones(len(told), bool)
        for row, _ in space.check(told) if space.rules and len(told) else ():
            fine[row] = False
        if not fine.any():
            return {"rules": []}
        found = learn_rules(told[fine], space=space, budget=_BUDGET)
        return {"rules": [{"text": rule.text, "figures": rule.figures} for rule in found.rules[:LISTED]]}

    def keep(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write the text as a new file of rules beside the data; no file is ever replaced."""
        text = text_in(request)
        try:
            other = different(self.space, open_text(text).space)
        except RuleError as error:
            raise DataError(f"these rules have an error: {error.reason}\nCorrect them first.") from None
        if other is not None:
            raise DataError(f"these rules are not about this run: {other}\nKeep its variables as they are.")
        if request.get("sure") is not True:
            raise Malformed("'sure' must be true")
        data = self.desk.file.path
        stem = data.name.removesuffix(".answers.csv")
        places = (data.with_name(f"{stem}-{n}.rules") for n in range(2, 10_000))
        place = next(place for place in places if not place.exists())
        write_whole(place, text.encode())
        return {"kept": str(place), "name": place.name}


def different(ours: LabelSpace, theirs: LabelSpace) -> str | None:
    """How the variables of a text differ from those of the run; None if they are the same."""
    mine, other = ({v.name: v for v in space.variables} for space in (ours, theirs))
    if list(mine) != list(other):
        gone, new = [n for n in mine if n not in other], [n for n in other if n not in mine]
        said = [f"it lacks {listed(gone, 5)}"] * bool(gone) + [f"it has {listed(new, 5)}"] * bool(new)
        return "; ".join(said) or "its variables are in another order"
    changed = [name for name in mine if mine[name] != other[name]]
    return f"the values of {listed(changed, 5)} are others" if changed else None


def moved(space: LabelSpace, rows: Looked, before: Columns, after: Columns) -> dict[str, Any]:
    """Rows whose predictions change, and for those with complete labels, whether for the better."""
    whole = complete(space, rows.known)
    changed = np.flatnonzero((before != after).any(axis=1))
    right = [((each == rows.known).all(axis=1)) & whole for each in (before, after)]
    return {
        "rows": len(rows.numbers),
        "changed": len(changed),
        "labelled": int(whole[changed].sum()),
        "better": int((~right[0] & right[1])[changed].sum()),
        "worse": int((right[0] & ~right[1])[changed].sum()),
        "changed_rows": [
            {
                "row": int(rows.numbers[i]),
                "before": label_text(space, before[i]),
                "after": label_text(space, after[i]),
                "better": bool(right[1][i]) if right[0][i] != right[1][i] else None,
            }
            for i in changed[:LISTED].tolist()
        ],
    }
