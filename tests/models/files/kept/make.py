"""Make the saved models that `test_kept.py` loads, with the rows they were asked about and what they answered.

They stand for those that users have: they are made once for each version that is released, in a folder of its name, and
never again. Run in an empty folder: python make.py FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dssl import DSSLClassifier, LabelSpace, save

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 3)).round(3)
WIDE = {f"c{i}": f"c{i // 3}" for i in range(3, 24)}
ANIMALS = """\
kind: {cat, trout, eagle}
legs, fins
kind = trout -> fins & !legs
kind = cat -> legs
0.9 :: kind = eagle -> legs
"""


def classifier(*args: Any, **parameters: Any) -> DSSLClassifier:
    return DSSLClassifier(*args, **{"steps": 10, "random_state": 0, **parameters})


def classes() -> tuple[DSSLClassifier, Any]:
    return classifier(network="linear").fit(X, np.where(X[:, 0] > 0, "yes", "no")), X


def blended() -> tuple[DSSLClassifier, Any]:
    """With all that is decided by default: a ridge model beside the network, calibrated."""
    return classifier(steps=30).fit(X, np.where(X[:, 0] * X[:, 1] > 0, 1, 0)), X


def rules() -> tuple[DSSLClassifier, Any]:
    space = LabelSpace(ANIMALS)
    return classifier(space, network="linear").fit(X, _labels(space, 8)), X


def learned() -> tuple[DSSLClassifier, Any]:
    space = LabelSpace("legs, fins\nlegs -> !fins")
    return classifier(space, network="linear", prior="learned").fit(X, _labels(space, 3)), X


def mixture() -> tuple[DSSLClassifier, Any]:
    space = LabelSpace("a, b, c, d\nexactly(2, a, b, c, d)")
    model = classifier(space, network="linear", objective={"components": 3})
    return model.fit(X, _labels(space, 6)), X


def hierarchy() -> tuple[DSSLClassifier, Any]:
    """Log odds given the class above, and networks that answer together."""
    space = LabelSpace.hierarchy(WIDE)
    return classifier(space, network="linear").fit(X, _labels(space, 12)), X


def image() -> tuple[DSSLClassifier, Any]:
    x = RANDOM.integers(0, 256, size=(12, 1, 8, 8)).astype(np.uint8)
    return classifier(network="cnn", steps=3).fit(x, np.arange(12) % 3), x


def _labels(space: LabelSpace, some: int) -> Any:
    valid = space.encode([*space.valid(some)])
    return valid[np.arange(len(X)) % len(valid)]


MODELS: dict[str, Callable[[], tuple[DSSLClassifier, Any]]] = {
    f.__name__: f for f in (classes, blended, rules, learned, mixture, hierarchy, image)
}


def keep(folder: Path, name: str) -> None:
    """Save a model, the rows, and its answers."""
    model, x = MODELS[name]()
    place = folder / name
    save(model, place / "model")
    np.save(place / "rows.npy", x[:6])
    answers = {
        "labels": np.asarray(model.predict(x[:6])).tolist(),
        "probabilities": _written(model.predict_proba(x[:6])),
    }
    (place / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


def _written(probabilities: Any) -> Any:
    if isinstance(probabilities, list):
        return [_written(part) for part in probabilities]
    return np.asarray(probabilities, np.float64).tolist()


def keep_run(folder: Path) -> None:
    """The run of a command on a table with numbers, categories and a text."""
    words = ["red small light", "blue heavy", "red light", "green heavy old", "blue old", "small new light"]
    lines = [
        f"{X[i, 0]},{'north' if i % 3 else 'south'},a {words[i % 6]} thing of {words[(i * 5) % 6]} make number {i},"
        f"{'' if i % 4 == 3 else int(X[i, 0] > 0)},{'' if i % 4 == 3 else int(X[i, 0] > 1)}"
        for i in range(40)
    ]
    head = "size,place,about,warm,hot"
    place = folder / "table"
    place.mkdir(parents=True)
    (place / "rows.csv").write_text("\n".join([head, *lines]) + "\n")
    (place / "a.rules").write_text("warm, hot\nhot -> warm\n")
    command = [sys.executable, "-m", "dssl", "fit", "rows.csv", "--rules", "a.rules", "--steps", "10", "--out", "run"]
    subprocess.run([*command, "--network", "linear"], cwd=place, check=True)
    ask = [sys.executable, "-m", "dssl", "predict", "run", "rows.csv", "--out", "answers.csv"]
    subprocess.run(ask, cwd=place, check=True)
    for name in ("report.html", "a.rules"):
        for path in place.rglob(name):
            if path.parent != place / "run" / "model":
                path.unlink()


if __name__ == "__main__":
    for name in MODELS:
        keep(Path(sys.argv[1]), name)
    keep_run(Path(sys.argv[1]))
