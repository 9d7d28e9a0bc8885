"""Five wrong uses of every command, each with its exit code and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dssl.app.cli import app

FILES = {
    "a.rules": b"legs, fins\nlegs -> !fins\n",
    "typo.rules": b"legs, fins\nlegs -> !fisn\n",
    "never.rules": b"a, b\na -> b\na = true\nb = false\n",
    "empty.rules": b"",
    "bytes.rules": b"\xff\xfe\x00",
    "labels.csv": b"a,b\n1,0\n",
    "none.csv": b"a,b\n",
}
TYPO, NEVER = "line 2, column 10: 'fisn' is not declared", "these rules contradict each other"
EMPTY, GONE = "'empty.rules': no variables are declared", "No such file or directory"

# command, further words, exit code, what is said
USES = [
    ("rules check", "typo.rules", 1, TYPO),
    ("rules check", "never.rules", 1, NEVER),
    ("rules check", "empty.rules", 1, EMPTY),
    ("rules check", "bytes.rules", 1, "bytes.rules is not UTF-8 text (byte 0)\nSave it as UTF-8"),
    ("rules check", "folder", 1, "folder is a folder\nName the file inside it."),
    ("rules check", "b.rules", 1, f"'b.rules': {GONE}\nDid you mean 'a.rules'?"),
    ("rules count", "typo.rules", 1, TYPO),
    ("rules count", "never.rules", 1, NEVER),
    ("rules count", "empty.rules", 1, EMPTY),
    ("rules count", "folder", 1, "folder is a folder"),
    ("rules count", "", 2, "parameter FILE requires an argument"),
    ("rules list", "never.rules", 1, NEVER),
    ("rules list", "empty.rules", 1, EMPTY),
    ("rules list", "a.rules --limit 0", 2, "--limit 0 lists nothing\nGive 1 or more."),
    ("rules list", "a.rules --limit many", 2, 'unable to convert "many" into int'),
    ("rules list", "nowhere.rules", 1, GONE),
    ("rules compile", "typo.rules", 1, TYPO),
    ("rules compile", "empty.rules", 1, EMPTY),
    ("rules compile", "a.rules --out x.png", 2, "--out x.png: a circuit is written as .dot, .nnf, .npz, .svg"),
    ("rules compile", "a.rules --budget-nodes few", 2, 'unable to convert "few" into int'),
    ("rules compile", "a.rules --budget-s -1", 2, "--budget-s -1 leaves no time\nGive seconds above 0."),
    ("rules compile", "a.rules --budget-nodes 0", 2, "--budget-nodes 0 leaves no room\nGive 1 or more."),
    ("rules show", "typo.rules", 1, TYPO),
    ("rules show", "never.rules", 1, NEVER),
    ("rules show", "empty.rules", 1, EMPTY),
    ("rules show", "folder", 1, "folder is a folder"),
    ("rules show", "", 2, "parameter FILE requires an argument"),
    ("rules format", "typo.rules", 1, TYPO),
    ("rules format", "never.rules", 1, NEVER),
    ("rules format", "bytes.rules", 1, "is not UTF-8 text"),
    ("rules format", "b.rules", 1, "Did you mean 'a.rules'?"),
    ("rules format", "a.rules --tidy", 2, "--tidy"),
    ("rules learn", "labels.csv --columns c", 1, "'labels.csv' has no column 'c' (--columns)\nIts columns: a, b."),
    ("rules learn", "a.rules", 1, "'a.rules' has a format that dssl does not read"),
    ("rules learn", "none.csv", 1, "'none.csv' has no rows"),
    ("rules learn", "labels.csv --level 2", 1, "level=2.0 is not a share that can be used"),
    ("rules learn", "labels.csv --tolerance -1", 1, "Use a number between 0 and 0.5."),
    ("rules explain", "a.rules --label legs", 1, "'legs' in --label is not name=value"),
    ("rules explain", "a.rules --label legz=1", 1, "Did you mean 'legs'?"),
    ("rules explain", "a.rules --label legs=7", 1, "'legs' cannot be '7'\nAllowed: 0, 1"),
    ("rules explain", "typo.rules", 1, TYPO),
    ("rules explain", "bytes.rules", 1, "is not UTF-8 text"),
    ("explore", "b.rules", 1, "Did you mean 'a.rules'?"),
    ("explore", "folder", 1, "'folder' is neither a run nor a saved model"),
    ("explore", "--port high", 2, 'unable to convert "high" into int'),
    ("explore", "--port 99999", 1, "port 99999 of 127.0.0.1 cannot be used"),
    ("explore", "--prot 1", 2, "Did you mean --port?"),
    ("explore", "labels.csv", 1, "'labels.csv' is data, and the explorer opens rules or a run\nFit a model first"),
    ("label", "labels.csv", 1, "'labels.csv' is a file\nGive the folder of a run"),
    ("label", "folder", 1, "'folder' is neither a run nor a saved model"),
    ("label", "foldr", 1, "Did you mean 'folder'?"),
    ("label", "", 2, "parameter RUN requires an argument"),
    ("label", "folder --port high", 2, 'unable to convert "high" into int'),
    ("report", "folder", 1, "'folder' is not a run: there is no summary.json in it"),
    ("report", "labels.csv", 1, "'labels.csv' is not a run"),
    ("report", "foldr", 1, "Did you mean 'folder'?"),
    ("report", "", 2, "parameter RUN requires an argument"),
    ("report", "folder --browse", 2, "Unknown option: --browse"),
    ("refit", "folder --out new", 1, "'folder' does not say how it was fitted"),
    ("refit", "foldr", 1, "Did you mean 'folder'?"),
    ("refit", "", 2, "parameter RUN requires an argument"),
    ("refit", "folder --steps 0", 2, "--steps 0 is below 1\nGive 1 or more."),
    ("refit", "folder --steps few", 2, 'unable to convert "few" into int'),
    ("refit", "folder --out labels.csv", 1, "'labels.csv' is a file\nGive --out a folder"),
    ("reproduce", "default", 1, "there is no experiment 'default'\nDid you mean 'defaults'?"),
    ("reproduce", "--ful", 2, "Did you mean --full?"),
    ("reproduce", "../defaults", 1, "there is no experiment '../defaults'"),
    ("reproduce", "defaults --full", 1, "'defaults' has one size only\nRun it without --full."),
    ("reproduce", "combination.py", 1, "Did you mean 'combination'?"),
    ("demo", "extra", 2, "Unused Tokens: ['extra']"),
    ("demo", "--json", 2, "Unknown option: --json"),
    ("demo", "--steps 3", 2, "Unknown option: --steps"),
    ("demo", "--help-me", 2, "Unknown option: --help-me"),
    ("demo", "a b", 2, "Try: dssl demo --help"),
    ("evaluate", "folder labels.csv", 1, "'folder' is not a saved model: it has no model.json"),
    ("evaluate", "nowhere labels.csv", 1, f"'nowhere': {GONE}"),
    ("evaluate", "RUN nowhere.csv", 1, f"'nowhere.csv': {GONE}\nDid you mean 'none.csv'?"),
    ("evaluate", "RUN labels.csv", 1, "'labels.csv' has no column 'legs' (the label)\nIts columns: a, b."),
    ("evaluate", "RUN", 2, "parameter DATA requires an argument"),
    ("predict", "folder labels.csv", 1, "'folder' is not a saved model"),
    ("predict", "RUN labels.csv", 1, "'labels.csv' has no columns weight, speed, home, which the model was trained on"),
    ("predict", "RUN nowhere.csv", 1, GONE),
    ("predict", "RUN labels.csv --out x.png", 2, "--out x.png is neither .csv, .parquet nor .jsonl"),
    ("predict", "RUN", 2, "parameter DATA requires an argument"),
    ("fit", "nowhere.csv --label a --out run", 1, GONE),
    ("fit", "none.csv --label a --out run", 1, "'none.csv' has no rows"),
    ("fit", "labels.csv --label c --out run", 1, "has no column 'c'"),
    ("fit", "labels.csv --rules typo.rules --out run", 1, TYPO),
    ("fit", "labels.csv --label a --out run --steps -5", 2, "--steps -5 is below 1"),
    ("fit", "labels.csv --label a --out run --steps few", 2, 'unable to convert "few" into int'),
    ("fit", "labels.csv --label a --out run --prior dreams", 2, "dreams"),
]


@pytest.mark.parametrize(("command", "words", "code", "said"), USES, ids=[f"{c} {w}" for c, w, *_ in USES])
def test_wrong_uses_say_what_is_wrong(
    command: str,
    words: str,
    code: int,
    said: str,
    fails: Callable[..., str],
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    given = [str(trained) if word == "RUN" else word for word in words.split()]
    assert said in fails(*command.split(), *given, code=code)
    assert sorted(tmp_path.iterdir()) == before  # nothing half-written stays


def test_every_command_has_five() -> None:
    counts = Counter(command for command, *_ in USES)
    commands = {f"{name} {inner}" for name in ("rules",) for inner in app[name] if not inner.startswith("-")}
    commands |= {name for name in app if not name.startswith("-") and name != "rules"}
    assert commands <= set(counts)
    assert min(counts.values()) >= 5
