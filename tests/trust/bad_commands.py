"""Command lines: files, settings files and run folders that are wrong. Uses beyond `app/commands/test_wrong_uses`."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
from pathlib import Path

from dssl.app.cli import main
from trust import right
from trust.bad import Make, Typed, both, deep, edited, link, nothing, put

LONG = "x" * 1_000_000
ROWS = "x,y\n" + "1,a\n2,b\n3,\n" * 4
CSV = put("d.csv", ROWS)
FIT = "fit d.csv --label y --out run --steps 2"


def typed(case: Typed, folder: Path) -> tuple[int, str]:
    """Runs a command line in this process: its exit code, and what it says on stderr."""
    words = [word.format(model=right.model(), run=right.run()) for word in shlex.split(case.words)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(words)
    return code, said.getvalue()


def data(name: str, content: str | bytes, said: str, words: str = FIT) -> Typed:
    return Typed(f"fit: {name}", both(put("d.csv", content), put("a.rules", right.RULES)), words, said)


def flag(words: str, said: str, code: int = 1) -> Typed:
    return Typed(f"fit {words}", CSV, f"{FIT} {words}", said, code)


def toml(name: str, content: str | bytes, said: str) -> Typed:
    return Typed(
        f"settings file: {name}",
        both(CSV, put("s.toml", content)),
        "fit d.csv --config s.toml --label y --out run",
        said,
    )


def copied(folder: Path) -> None:
    shutil.copytree(right.run(), folder / "copy")


def harmed(name: str, harm: Make, said: str, words: str = "predict copy d.csv") -> Typed:
    return Typed(f"run: {name}", both(put("d.csv", right.DATA), copied, harm), words, said)


FITS = [
    data(
        "one class",
        "x,y\n" + "1,a\n2,a\n" * 5,
        "d.csv': every label in column 'y' is a … Label rows of at least two classes.",
    ),
    data("no labels", "x,y\n1,\n2,\n", "the label column 'y' is empty … Label some rows, or leave it out of"),
    data("no features", "y\na\nb\n", "d.csv' has no column to learn from besides y … Add feature columns."),
    data(
        "constant features",
        "x,y\n1,a\n1,b\n",
        "d.csv' has no column to learn from besides y … Add feature columns.",
    ),
    data(
        "infinity among numbers",
        ROWS + "inf,a\n",
        "d.csv', line 14: column 'x' holds inf … Give a finite number, or leave the cell",
    ),
    data(
        "a word among numbers",
        ROWS * 1 + "4,a\n" * 30 + "four,a\n",
        "d.csv', line 44: column 'x' holds numbers, but here 'four … Correct it, leave the cell empty if it is",
    ),
    data("two columns called alike", "x,x,y\n1,2,a\n", "d.csv' has two columns 'x … Rename one of them."),
    data(
        "a header of a million letters",
        f"{LONG},y\n1,a\n2,b\n",
        "d.csv' has no column 'zebra' (--label) … Its columns:",
        "fit d.csv --label zebra --out run",
    ),
    data(
        "a label of a million letters",
        "x,y\n1,a\n2,b\n3," + LONG + "\n",
        "a.rules' is about legs, fins, and not about the label column … Give them the same names, or name",
        "fit d.csv --label y --rules a.rules --out run",
    ),
    data("not text", b"x,y\n\xff\xfe,a\n", "d.csv' cannot be read: it is not UTF-8 text (byte 4) … Save it as UTF-8."),
    data(
        "labels outside the rules",
        "x,legs,fins\n1,7,0\n2,0,1\n",
        "d.csv', line 2, column 'legs': 'legs' cannot be '7 … Allowed: 0, 1, true, false, yes, no; empty for",
        "fit d.csv --rules a.rules --out run",
    ),
    data(
        "labels that break the rules",
        "x,legs,fins\n1,1,1\n2,0,1\n",
        "d.csv': the labels of 1 of 2 rows break the rules … Correct these rows or rules; or give",
        "fit d.csv --rules a.rules --out run",
    ),
    Typed(
        "fit: a link in a circle",
        link("d.csv", "d.csv"),
        FIT,
        "d.csv': Too many levels of symbolic links … Check the path and its permissions.",
    ),
    Typed(
        "fit: a pipe",
        lambda f: os.mkfifo(f / "d.csv"),
        FIT,
        "d.csv' is not a regular file … Give CSV (.csv, .tsv), Parquet",
    ),
    Typed(
        "fit: a file where the run should go",
        both(CSV, put("run", b"x")),
        FIT,
        "run' is a file … Give --out a folder that dssl may make.",
    ),
    Typed(
        "fit: a folder of someone else's",
        both(CSV, put("run/precious.txt", b"x")),
        FIT,
        "run' is not empty and holds no run … Give --out a new folder.",
    ),
    Typed(
        "fit: rows without the same columns",
        both(CSV, put("u.csv", "z\n1\n")),
        f"{FIT} --unlabelled u.csv",
        "u.csv' has no column 'x' (--unlabelled) … Its columns: z.",
    ),
    Typed(
        "fit: test rows without labels",
        both(CSV, put("t.csv", "x,y\n1,\n")),
        f"{FIT} --test t.csv",
        "t.csv' has no labelled row to measure on … Give labelled rows.",
    ),
    Typed(
        "fit: test rows of another class",
        both(CSV, put("t.csv", "x,y\n1,zebra\n")),
        f"{FIT} --test t.csv",
        "t.csv', line 2, column 'y': 'y' cannot be 'zebra … Allowed: a, b; empty for unknown.",
    ),
    Typed(
        "fit: images beside a table",
        both(CSV, put("i/a.png", b"x")),
        f"{FIT} --unlabelled i",
        "the image 'i/a.png' cannot be read: cannot identify image … Replace or remove it.",
    ),
    Typed(
        "fit: damaged Parquet",
        put("d.parquet", b"PAR1junkPAR1"),
        "fit d.parquet --label y --out run",
        "d.parquet' cannot be read as Parquet: parquet: File out of … Check the file.",
    ),
    Typed(
        "fit: an archive of nothing",
        put("d.npz", b"PK\x05\x06" + bytes(18)),
        "fit d.npz --label y --out run",
        "d.npz' has no array X; its arrays: none … Save with savez(path, X=…, y=…).",
    ),
    flag("--power -1", "--power -1 is not above 0 … Give 2, say.", 2),
    flag("--power nan", "--power nan is not above 0 … Give 2, say.", 2),
    flag(
        "--power 2 --prior entropy",
        "--power belongs to the deterministic prior, not entropy … Leave out one of them.",
        2,
    ),
    flag("--ramp 2", "objective={'ramp': 2.0}: it must be a share of training … See dssl fit --help."),
    flag("--learning-rate inf", "The 'learning_rate' parameter of DSSLClassifier must be a … See dssl fit --help."),
    flag("--ema 1", "ema=1.0: it must be from 0 to below 1, or None … See dssl fit --help."),
    flag("--batch-size 0", "--batch-size 0 is below 1 … Give 1 or more.", 2),
    flag("--labelled-batch 9", "there is no --labelled-batch any more … Say --batch-size.", 2),
    flag("--early-stopping", "there is no --early-stopping any more … Say --patience 5, which stops early.", 2),
    flag("--devices 0", "devices=0: it must be a whole number, 1 or more … See dssl fit --help."),
    flag("--checkpoint-every 0", "--checkpoint-every 0 is below 1 … Give 1 or more.", 2),
    Typed(
        "fit: a negative number of steps",
        CSV,
        "fit d.csv --label y --out run --steps -5",
        "--steps -5 is below 1 … Give 1 or more.",
        2,
    ),
    flag("--seed -1", "The 'random_state' parameter of DSSLClassifier must be an … See dssl fit --help."),
    flag("--test-share 0.9", "--test-share 0.9 is not above 0 and at most 0.5 … Give a share such as .2.", 2),
    flag("--group x", "--group says which rows are held out together, and no rows … Give --test-share .2 with it.", 2),
    flag("--group nope --test-share .5", "d.csv' has no column 'nope' (--group) … Its columns:"),
    flag("--text nope", "d.csv' has no column 'nope' (--text) … Its columns:"),
    flag("--test-share 0.5 --test d.csv", "--test and --test-share both say what to measure on … Give one of them.", 2),
    flag("--categorical zebra", "d.csv' has no column 'zebra' (--categorical) … Its columns: x, y."),
    flag("--id zebra", "d.csv' has no column 'zebra' (--id) … Its columns: x, y."),
    flag("--network cnn", "cnn' wants images (n, channels, height, width), but a row … Reshape x, or use 'mlp'."),
    flag(
        "--patience 5 --validation-fraction 0.01",
        '2 labelled rows are too few to hold out a fraction of 0.01 … Leave "patience" out of the',
    ),
    flag("--image-size -3", "--image-size -3 is below 1 … Give 1 or more.", 2),
    flag(
        "--augment image",
        'Flip is for images (n, channels, height, width), and a row … Reshape x, or use augment="table".',
    ),
]
TOMLS = [
    toml(
        "not TOML",
        "steps: 5",
        "s.toml' is not TOML: Expected '=' after a key in a … Write one setting per line, as in: steps",
    ),
    toml(
        "not text",
        b"\xff\xfe",
        "s.toml' is not TOML: 'utf-8' codec can't decode byte 0xff … Write one setting per line, as in: steps",
    ),
    toml(
        "a number of a million digits",
        "steps = " + "9" * 1_000_000,
        "s.toml' is not TOML: Exceeds the limit (4300 digits) for … Write one setting per line, as in: steps",
    ),
    toml("a number that no float holds", "power = 1" + "0" * 400, "s.toml': power = … Give a number."),
    toml(
        "lists nested deep",
        "steps = " + deep("[", "]"),
        "s.toml' is not TOML: maximum recursion depth exceeded … Write one setting per line, as in: steps",
    ),
    toml(
        "a setting that is none",
        "stpes = 5",
        "s.toml' has a setting 'stpes' that dssl fit does not know … Did you mean 'steps'? Settings have",
    ),
    toml(
        "a setting of a million letters",
        f"{LONG} = 5",
        "s.toml' has a setting … Settings have the names of the flags: see",
    ),
    toml("a text for a number", 'steps = "many"', "s.toml': steps = 'many' does not fit … Give a whole number."),
    toml("a truth for a number", "steps = true", "s.toml': steps = True does not fit … Give a whole number."),
    toml(
        "a table for a text",
        "prior = {a = 1}",
        's.toml\': prior = {\'a\': 1} does not fit … Give one of "auto", "deterministic", "entropy",',
    ),
    toml(
        "a path with a zero byte",
        'rules = "a\\u0000b"',
        "s.toml': rules = 'a\\x00b' does not fit … Give a path in quotes.",
    ),
    toml(
        "a setting twice",
        "steps = 1\nsteps = 2",
        "s.toml' is not TOML: Cannot overwrite a value (at end of … Write one setting per line, as in: steps",
    ),
    toml("a list of lists", "label = [[1]]", "s.toml': label = [1] does not fit … Give a text in quotes."),
    Typed(
        "settings file: not there",
        CSV,
        "fit d.csv --config nowhere.toml --label y --out run",
        "nowhere.toml': No such file or directory … Check the path and its permissions.",
    ),
    Typed(
        "settings file: a folder",
        both(CSV, put("s/x", b"")),
        "fit d.csv --config s --label y --out run",
        "s is a folder … Name the file inside it.",
    ),
]
RUNS = [
    harmed(
        "no model",
        lambda f: shutil.rmtree(f / "copy/model"),
        "copy' is not a saved model: it has no model.json … Check the path.",
    ),
    harmed(
        "no facts",
        lambda f: (f / "copy/model/model.json").unlink(),
        "copy/model' is not a saved model: it has no model.json … Check the path.",
    ),
    harmed(
        "facts nested deep",
        put("copy/model/model.json", deep("[", "]")),
        "copy/model/model.json' cannot be read: maximum recursion … Save the model again, or fetch an intact",
    ),
    harmed(
        "facts edited",
        edited("copy/model/model.json", lambda s: s.update(steps=9)),
        "copy/model/model.json' was changed after it was saved: its … Save the model again, or fetch an intact",
    ),
    harmed(
        "weights cut short",
        lambda f: os.truncate(f / "copy/model/model.safetensors", 40),
        "copy/model/model.safetensors' was changed or cut short: its … Save the model again, or fetch an intact",
    ),
    harmed(
        "preprocessing cut short",
        lambda f: os.truncate(f / "copy/preprocessing.json", 40),
        "copy/preprocessing.json' is damaged: Unterminated string … Fetch an intact copy of the run, or fit",
    ),
    harmed(
        "preprocessing of another shape",
        edited("copy/preprocessing.json", lambda s: s.update(columns=[])),
        "copy/preprocessing.json' makes inputs of shape (0,), and … Fetch an intact copy of the run, or fit",
    ),
    harmed(
        "preprocessing of a strange kind",
        edited("copy/preprocessing.json", lambda s: s["columns"][0].update(kind="code")),
        "copy/preprocessing.json' is damaged: the column 'weight' … Fetch an intact copy of the run, or fit",
    ),
    harmed(
        "columns are missing",
        put("d.csv", "weight\n1\n"),
        "d.csv' has no column home, which the model was trained on … Its columns: weight. Add what is",
    ),
    harmed(
        "a word for a number",
        put("d.csv", "weight,home\nheavy,sea\n"),
        "d.csv', line 2: column 'weight' held numbers in training, … Correct it, or leave the cell empty if it",
    ),
    harmed(
        "an infinite number",
        put("d.csv", "weight,home\ninf,sea\n"),
        "d.csv', line 2: column 'weight' held numbers in training, … Correct it, or leave the cell empty if it",
    ),
    harmed(
        "a column to name rows by that is not there",
        nothing,
        "d.csv' has no column 'zebra' (--id) … Its columns: weight, home, legs, fins.",
        "predict copy d.csv --id zebra",
    ),
    harmed("no rows", put("d.csv", "weight,home\n"), "d.csv' has no rows … Give a file with one row per sample."),
    harmed(
        "labels are missing",
        put("d.csv", "weight,home\n1,sea\n"),
        "d.csv' has no column 'legs' (the label) … Its columns: weight, home.",
        "evaluate copy d.csv",
    ),
    harmed(
        "no label is known",
        put("d.csv", "weight,home,legs,fins\n1,sea,,\n"),
        "d.csv' has no labelled row to measure on … Give labelled rows.",
        "evaluate copy d.csv",
    ),
    harmed(
        "a label outside the space",
        put("d.csv", "weight,home,legs,fins\n1,sea,7,\n"),
        "d.csv', line 2, column 'legs': 'legs' cannot be '7 … Allowed: 0, 1, true, false, yes, no; empty for",
        "evaluate copy d.csv",
    ),
    harmed(
        "predictions into a folder that is not there",
        nothing,
        "nowhere/p.csv' cannot be written: No such file or directory … Check the folder and its permissions",
        "predict copy d.csv --out nowhere/p.csv",
    ),
    harmed(
        "predictions over a folder",
        put("p.csv/x", b""),
        "p.csv' cannot be written: there is something other than a file … Check the folder",
        "predict copy d.csv --out p.csv",
    ),
    harmed(
        "fit over a finished run",
        nothing,
        "copy' holds a finished run … Give another --out, or --overwrite to",
        "fit d.csv --label legs --out copy --steps 2",
    ),
    harmed(
        "unfinished",
        both(lambda f: (f / "copy/run.json").unlink(), put("copy/checkpoint/run.json", "{}")),
        "the run in 'copy' is not finished … Run its dssl fit command again to",
    ),
]
RULES = [
    Typed(
        "rules check: zero bytes",
        put("a.rules", bytes(50)),
        "rules check a.rules",
        "a.rules', line 1, column 1: the character '\\x00' has no … Names with other characters are quoted:",
    ),
    Typed(
        "rules check: a link in a circle",
        link("a.rules", "a.rules"),
        "rules check a.rules",
        "a.rules': Too many levels of symbolic links … Check the path and its permissions.",
    ),
    Typed(
        "rules compile: a folder that is not there",
        put("a.rules", "a, b\na -> b\n"),
        "rules compile a.rules --out no/c.npz",
        "no/c.npz' cannot be written: No such file or directory … Check the folder and its permissions",
    ),
    Typed(
        "rules learn: not text",
        put("d.csv", b"a,b\n\xff,1\n"),
        "rules learn d.csv",
        "d.csv' cannot be read: it is not UTF-8 text (byte 4) … Save it as UTF-8.",
    ),
    Typed(
        "rules learn: one row",
        put("d.csv", "a,b\n1,2\n"),
        "rules learn d.csv --level nan",
        "level=nan is not a share that can be used … Use a number between 0 and 1.",
    ),
    Typed(
        "rules count: a monster",
        put("a.rules", "n: 0..1000000000000\n"),
        "rules count a.rules",
        "a.rules', line 1, column 4: the range 0..1000000000000 has … Each value is one output of the",
    ),
]
KNOWN = "weight,home,legs,fins\n1.5,sea,,1\n2.5,wood,1,1\n"
EVIDENCE = [
    Typed(f"evidence: {name}", put("d.csv", content), f"predict {{run}} d.csv --evidence-columns {columns}", said)
    for name, content, columns, said in (
        (
            "against a rule of the file",
            KNOWN,
            "legs fins",
            "d.csv', line 3: the evidence contradicts the rules … Correct the line",
        ),
        ("not a label", KNOWN, "home", "'home' is not a label of the model … Its labels: legs, fins."),
        ("misspelt", KNOWN, "leg", "'leg' is not a label of the model … Did you mean 'legs'? Its labels"),
        (
            "not in the file",
            "weight,home\n1.5,sea\n",
            "legs",
            "d.csv' has no column 'legs' … Its columns: weight, home.",
        ),
        (
            "not a value",
            KNOWN.replace("1,1", "5,1"),
            "legs fins",
            "line 3, column 'legs': 'legs' cannot be '5' … 0, 1",
        ),
    )
]
CASES = FITS + TOMLS + RUNS + RULES + EVIDENCE
