"""`dssl fit` from files to a run folder, interrupted, resumed, in two processes, and refused where it must be."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dssl as library
from dssl.app.cli import main
from dssl.app.explorer.predictions import Run
from dssl.data.preprocessing import Preprocessing

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_run_has_everything_that_it_promises(trained: Path, folder: Path) -> None:
    assert sorted(path.name for path in trained.iterdir()) == [
        "log.csv", "model", "preprocessing.json", "report.html", "run.json", "summary.json",
    ]  # fmt: skip
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
    model = library.load(trained / "model")
    assert model.space_ == library.LabelSpace.read(folder / "animals.rules")
    run = json.loads((trained / "run.json").read_text())
    assert (run["format"], run["version"], run["data_format"]) == ("dssl run", 1, "CSV")
    assert run["rows"] == {"labelled": 32, "unlabelled": 50, "test": 8}
    assert run["settings"]["steps"] == 40
    assert run["steps"] == 40
    assert set(run["metrics"]) == {"accuracy, labelled", "accuracy, test"}
    assert run["command"].startswith("dssl fit ")
    with (trained / "log.csv").open() as file:
        steps = [int(row["step"]) for row in csv.DictReader(file)]
    assert steps[-1] == 40
    summary = json.loads((trained / "summary.json").read_text())
    ways = ["one label for all", "labels alone", "labels and rules", "this model"]
    assert [way["name"] for way in summary["comparison"]] == ways
    assert 0 <= summary["curves"][-1]["watched"] <= 1
    assert "legs" not in {name for wrong in summary["mistakes"] for name in wrong["cells"]}  # that is its label
    assert "<html" in (trained / "report.html").read_text()
    inputs = Preprocessing.load(trained / "preprocessing.json").inputs
    assert inputs == ["weight", "weight is missing", "speed", "home=field", "home=sea", "home=wood"]


def test_simpler_ways_can_be_left_out(folder: Path, tmp_path: Path) -> None:
    words = [folder / "animals.csv", "--rules", folder / "animals.rules", "--test-share", ".2", "--id", "name"]
    words += ["--steps", "5", "--quiet", "--no-compare", "--out", tmp_path / "run"]
    assert main(["fit", *map(str, words)]) == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["comparison"] == []
    assert "were not tried beside it" in (tmp_path / "run" / "report.html").read_text()


def test_what_will_be_done_is_shown_before_it_is(trained: Path, folder: Path) -> None:
    said = (folder / "said.txt").read_text()
    for part in ("weight", "numeric", "categorical", "field, sea, wood", "32 labelled, 50 unlabelled, 8 test",
                 "legs, fins, wings: 4 valid", "network   mlp: 6 inputs, 3 outputs", "steps 40",
                 "trained in", "test rows predicted right", "report.html"):  # fmt: skip
        assert part in said


def test_the_example_of_the_readme(
    dssl: Callable[..., Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data, rules = EXAMPLES / "animals" / "animals.csv", EXAMPLES / "animals" / "animals.rules"
    done = dssl("fit", data, "--rules", rules, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    found = pl.read_csv(run(capsys, "predict", tmp_path / "run", data)[0].encode())
    assert found.height == 600
    space = library.LabelSpace.read(rules)
    assert not space.check(found.drop("row").to_dicts())


def test_the_example_is_what_its_script_makes(tmp_path: Path) -> None:
    kept = EXAMPLES / "animals" / "animals.csv"
    script = tmp_path / "make.py"
    script.write_text((EXAMPLES / "animals" / "make.py").read_text())
    subprocess.run([sys.executable, script], check=True)
    assert (tmp_path / "animals.csv").read_text() == kept.read_text()


# ---- in this process, to save time ----


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> tuple[str, str]:
    assert main([str(word) for word in words]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    words = (
        "fit",
        folder / "animals.csv",
        "--rules",
        folder / "animals.rules",
        "--out",
        tmp_path / "run",
        "--steps",
        5,
    )
    out, err = run(capsys, *words, "--json")
    found = json.loads(out)
    assert found["out"] == str(tmp_path / "run")
    assert found["valid_labels"] == 4
    assert found["warnings"] == ["column 'name' is left out: every row has a different text, like a name"]
    assert "warning: column 'name' is left out" in err


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    words = ("fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--out", tmp_path / "run", "--dry-run")
    out, _ = run(capsys, *words)
    assert "40 labelled, 50 unlabelled" in out
    plan = json.loads(run(capsys, *words, "--json")[0])
    assert plan["rows"] == {"labelled": 40, "unlabelled": 50, "test": 0}
    kinds = {column["name"]: column["kind"] for column in plan["columns"]}
    assert kinds == {"name": "left out", "weight": "numeric", "speed": "numeric", "home": "categorical"}
    assert plan["network"] == "mlp"
    assert plan["weights"] > 100
    assert list(tmp_path.iterdir()) == []


def test_settings_come_from_a_file_and_flags_win(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    toml = tmp_path / "settings.toml"
    toml.write_text(f'rules = "{folder / "animals.rules"}"\nsteps = 7\nprior = "entropy"\nprior-weight = 2\nseed = 3\n')
    words = ("fit", folder / "animals.csv", "--config", toml, "--steps", 9, "--dry-run", "--json")
    settings = json.loads(run(capsys, *words)[0])["settings"]
    assert (settings["steps"], settings["prior"], settings["prior_weight"], settings["seed"]) == (9, "entropy", 2.0, 3)


def test_arrays_images_and_further_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 40)
    x = random.normal(size=(40, 1, 8, 8)) + 2.0 * y[:, None, None, None]
    np.savez(tmp_path / "images.npz", X=x, y=np.where(np.arange(40) < 20, y, -1))
    np.savez(tmp_path / "more.npz", X=x[:10])
    out, _ = run(
        capsys, "fit", tmp_path / "images.npz", "--unlabelled", tmp_path / "more.npz", "--out", tmp_path / "run",
        "--steps", 3, "--network", "cnn", "--json",
    )  # fmt: skip
    assert json.loads(out)["rows"] == {"labelled": 20, "unlabelled": 30, "test": 0}
    assert library.load(tmp_path / "run" / "model").input_shape_ == (1, 8, 8)


def test_wrong_rows_of_arrays_are_told_without_columns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Arrays have labels and nothing else to show of a row that is predicted wrong."""
    random = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", X=random.normal(size=(40, 1, 4, 4)), y=random.integers(0, 2, 40))
    run(capsys, "fit", tmp_path / "d.npz", "--test", tmp_path / "d.npz", "--out", tmp_path / "run", "--steps", 3)
    wrong = json.loads((tmp_path / "run" / "summary.json").read_text())["mistakes"]
    assert wrong
    assert all(mistake["cells"] == {} for mistake in wrong)


def test_folders_of_images(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="images need pillow")
    random = np.random.default_rng(0)
    for i in range(24):
        path = tmp_path / "pictures" / ("unlabelled" if i > 15 else "dark" if i % 2 else "light") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 100, (9, 7), dtype=np.uint8) + (0 if i % 2 else 150)
        image.fromarray(pixels.astype(np.uint8)).save(path)
    words = ("fit", tmp_path / "pictures", "--image-size", 8, "--steps", 30, "--out", tmp_path / "run", "--quiet")
    run(capsys, *words)
    found = pl.read_csv(run(capsys, "predict", tmp_path / "run", tmp_path / "pictures")[0].encode())
    expected = ["dark" if int(Path(name).stem) % 2 else "light" for name in found["file"]]
    assert found["class"].to_list() == expected


def test_the_same_seed_gives_the_same_model(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    weights = []
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(capsys, "fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--out", tmp_path / out,
            "--steps", 3, "--seed", seed, "--quiet")  # fmt: skip
        weights.append((tmp_path / out / "model" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_an_old_run_is_kept_until_the_new_one_is_whole(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--out", tmp_path / "run", "--quiet"]
    run(capsys, *words, "--steps", 2)
    before = (tmp_path / "run" / "run.json").read_text()
    _, err = run(capsys, *words, "--steps", 4, code=1)
    assert "holds a finished run" in err

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "report.html")

    with monkeypatch.context() as patched:
        patched.setattr("dssl.app.report.write_report", full)
        _, err = run(capsys, *words, "--steps", 4, "--overwrite", code=1)
    assert "'report.html': No space left on device" in err
    assert (tmp_path / "run" / "run.json").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    run(capsys, *words, "--steps", 4, "--overwrite")  # goes on from the checkpoint that was kept
    assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] == 4
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_checkpoints_outlive_a_full_disk(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--steps", 9, "--checkpoint-every", 3]
    real, writes = os.fsync, iter(range(1000))

    def fills_up(handle: int) -> None:
        if next(writes) > 7:
            raise OSError(28, "No space left on device")
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fills_up)
        _, err = run(capsys, *words, "--out", tmp_path / "run", "--quiet", code=1)
    assert "cannot be written: No space left on device\nWhat was there before is untouched. Free some space" in err
    assert list((tmp_path / "run" / "checkpoint").glob("step-*"))
    out, _ = run(capsys, *words, "--out", tmp_path / "run")
    assert "resuming from the last checkpoint" in out


def test_nothing_is_left_of_a_run_that_fails(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    words = ["fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--out", tmp_path / "run"]
    _, err = run(capsys, *words, "--learning-rate", 1e38, "--steps", 20, "--quiet", code=1)
    assert "is not finite at step" in err
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_dies_ends_the_run_with_a_sentence(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise RuntimeError("rank 1 of the training was ended by signal 9 (SIGKILL), so the others were ended too")

    monkeypatch.setattr(library.DSSLClassifier, "fit", die)
    words = ["fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--out", tmp_path / "run"]
    assert "error: rank 1 of the training was ended by signal 9" in run(capsys, *words, "--quiet", code=1)[1]
    assert list(tmp_path.iterdir()) == []


# ---- interruption, processes ----


def started(*words: object) -> subprocess.Popen[str]:
    script = Path(sys.executable).with_name("dssl")
    return subprocess.Popen(
        [script, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_ctrl_c_saves_and_the_same_command_goes_on(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    words = ["fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--out", tmp_path / "run"]
    words += ["--checkpoint-every", 5, "--quiet"]
    process = started(*words, "--steps", 4000)
    log = tmp_path / "run" / "checkpoint" / "log.csv"
    until = time.monotonic() + 120
    while not (log.exists() and log.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted at step" in err
    assert "to resume, run the same command again: dssl fit" in err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint"]
    _, err = run(capsys, *words, "--steps", 30, code=1)
    assert "holds an unfinished run that was started differently:\n  steps: 4000 there, 30 here" in err
    assert (
        "is not finished\nRun its dssl fit command again"
        in run(capsys, "predict", tmp_path / "run", folder / "animals.csv", code=1)[1]
    )


def test_a_run_that_was_cut_short_ends_like_one_that_was_not(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--checkpoint-every", 5, "--steps", 20]
    run(capsys, *words, "--out", tmp_path / "whole", "--quiet")
    from dssl.training.loop import _Run

    kept = _Run.update

    def update(self: _Run, loss: Any) -> None:
        if self.step == 12:
            self.started -= 1000.0
            monkeypatch.undo()
            os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C
        kept(self, loss)

    monkeypatch.setattr(_Run, "update", update)
    _, err = run(capsys, *words, "--out", tmp_path / "cut", "--quiet", code=130)
    assert re.search("interrupted at step 1[34] of 20", err)
    out, _ = run(capsys, *words, "--out", tmp_path / "cut")
    assert "resuming from the last checkpoint" in out
    assert re.search(r"trained in 10\d\d\.\d s, 20 steps", out)  # with those before it was cut
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]


def test_two_processes_from_the_console(dssl: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("lightning_fabric", reason="training in processes needs lightning-fabric")
    words = ["fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--steps", 6, "--json"]
    words += ["--network", "linear"]  # others have dropout, which differs by process
    both = dssl(*words, "--out", tmp_path / "two", "--devices", 2)
    assert both.returncode == 0, both.stderr
    assert json.loads(both.stdout)["steps"] == 6
    one = main([str(word) for word in [*words, "--out", tmp_path / "one"]])
    assert one == 0
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    theta = [library.load(tmp_path / name / "model").predict_theta(x) for name in ("one", "two")]
    np.testing.assert_allclose(theta[0], theta[1], atol=1e-5)


# ---- wrong uses ----


def test_a_mixture_is_fitted_predicted_sampled_and_explored(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    out, rules = tmp_path / "mixed", folder / "animals.rules"
    words = ("fit", folder / "animals.csv", "--rules", rules, "--components", 3, "--steps", 5)
    run(capsys, *words, "--out", out, "--quiet")
    assert json.loads((out / "model" / "model.json").read_text())["network"]["components"] == 3
    alone = json.loads(run(capsys, *words[:4], "--dry-run", "--json")[0])["weights"]
    assert json.loads(run(capsys, *words, "--dry-run", "--json")[0])["weights"] > alone
    assert "P(" in run(capsys, "predict", out, folder / "animals.csv", "--proba")[0]
    assert "sample" in run(capsys, "predict", out, folder / "animals.csv", "--sample", 2)[0]
    said = Run.open(out).prediction({"row": 3})
    assert len(said["theta"]) == len(said["marginals"])
    assert said["top"][0]["label"] == said["final"]


def test_wrong_usage_has_code_2(fails: Callable[..., str], folder: Path) -> None:
    data = folder / "animals.csv"
    assert "there is no folder for the run" in fails("fit", data, "--label", "legs", code=2)
    assert "Unknown option: --stepz. Did you mean --steps?" in fails("fit", data, "--out", "x", "--stepz", 3, code=2)
    assert 'Invalid value "gauss" for --prior' in fails("fit", data, "--out", "x", "--prior", "gauss", code=2)
    said = fails("fit", data, "--out", "x", "--test", data, "--test-share", 0.2, code=2)
    assert "--test and --test-share both say what to measure on" in said
    assert "DATA requires an argument" in fails("fit", "--out", "x", code=2)
    assert "--test-share 0.9 is not above 0" in fails("fit", data, "--out", "x", "--test-share", 0.9, code=2)
    assert "--components 0 is below 1" in fails("fit", data, "--out", "x", "--components", 0, code=2)


def test_columns_that_are_not_there(fails: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    data, out = folder / "animals.csv", ("--out", tmp_path / "run")
    said = fails("fit", data, "--label", "leg", *out)
    assert f"'{data}' has no column 'leg' (--label)\nDid you mean 'legs'?" in said
    assert "has no column 'weigth' (--ignore)" in fails("fit", data, "--label", "legs", "--ignore", "weigth", *out)
    assert "it is not clear which column" in fails("fit", data, *out)
    rules = tmp_path / "other.rules"
    rules.write_text("paws, claws\npaws -> claws\n")
    assert f"'{rules}' is about paws, claws, and '{data}' has no such column" in fails(
        "fit", data, "--rules", rules, *out
    )
    assert not (tmp_path / "run").exists()


def test_files_that_cannot_be_read(fails: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    out = ("--label", "legs", "--out", tmp_path / "run")
    assert "Did you mean 'animals.csv'?" in fails("fit", folder / "animal.csv", *out)
    (tmp_path / "data.xlsx").write_text("")
    assert "a format that dssl does not read\nGive CSV" in fails("fit", tmp_path / "data.xlsx", *out)
    (tmp_path / "ragged.csv").write_text("legs,a\n1,2\n0,3,4\n")
    assert "line 3 has 3 cells for 2 columns" in fails("fit", tmp_path / "ragged.csv", *out)
    rules = tmp_path / "bad.rules"
    rules.write_text("legs, fins\nlegs -> !fisn\n")
    said = fails("fit", folder / "animals.csv", "--rules", rules, "--out", tmp_path / "run")
    assert f"'{rules}', line 2, column 10: 'fisn' is not declared" in said


def test_cells_that_do_not_fit(fails: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(folder / "animals.csv", infer_schema=False)
    data, out = tmp_path / "data.csv", ("--rules", folder / "animals.rules", "--out", tmp_path / "run")

    def with_cell(column: str, row: int, cell: str) -> None:
        frame.with_columns(frame[column].scatter(row, cell)).write_csv(data)

    with_cell("speed", 4, "fast")
    said = fails("fit", data, *out)
    assert f"'{data}', line 6: column 'speed' holds numbers, but here 'fast'" in said
    assert '--categorical "speed"' in said
    with_cell("legs", 7, "four")
    said = fails("fit", data, *out)
    assert f"'{data}', line 9, column 'legs': 'legs' cannot be 'four'" in said
    with_cell("speed", 2, "inf")
    assert "line 4: column 'speed' holds inf" in fails("fit", data, *out)
    broken = frame.with_columns(frame["legs"].scatter(3, "1"), frame["fins"].scatter(3, "1"))
    broken.write_csv(data)
    said = fails("fit", data, *out)
    assert "the labels of 1 of 90 rows break the rules\n  line 2: legs -> !fins\n    line 5\n" in said
    assert "--on-violation warn, drop or repair" in said


def test_settings_that_do_not_fit(fails: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    words = ("fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--out", tmp_path / "run")
    toml = tmp_path / "settings.toml"
    toml.write_text("step = 5\n")
    said = fails(*words, "--config", toml)
    assert f"'{toml}' has a setting 'step' that dssl fit does not know\nDid you mean 'steps'?" in said
    toml.write_text('steps = "five"\n')
    assert f"'{toml}': steps = 'five' does not fit\nGive a whole number." in fails(*words, "--config", toml)
    toml.write_text("steps = \n")
    assert "is not TOML" in fails(*words, "--config", toml)
    assert "--steps 0 is below 1\nGive 1 or more." in fails(*words, "--steps", 0, code=2)
    assert "devices=0: it must be a whole number, 1 or more" in fails(*words, "--devices", 0)
    assert not (tmp_path / "run").exists()


def test_folders_that_are_not_ours_stay_as_they_are(fails: Callable[..., str], folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    words = ("fit", folder / "animals.csv", "--rules", folder / "animals.rules", "--out")
    assert "is not empty and holds no run" in fails(*words, tmp_path, "--overwrite")
    assert "is a file" in fails(*words, tmp_path / "thesis.txt", "--overwrite")
    assert (tmp_path / "thesis.txt").read_text() == "irreplaceable"


def test_a_hierarchy_in_the_file_is_learned_and_predicted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    head = "@relation r\n@attribute x numeric\n@attribute k {a,b}\n@attribute class hierarchical 01,01/02,03\n@data\n"
    rows = [f"{i % 3},{'ab'[i % 2]},{('01/02', '01', '03')[i % 3]}" for i in range(60)]
    data = tmp_path / "d.arff"
    data.write_text(head + "\n".join(rows) + "\n")
    run(capsys, "fit", data, "--out", tmp_path / "run", "--steps", 150)
    out, _ = run(capsys, "predict", tmp_path / "run", data)
    assert [set(line.split(",")[1].split("@")) for line in out.splitlines()[1:4]] == [{"01", "01/02"}, {"01"}, {"03"}]
    assert "60 of 60 labelled rows are predicted right" in run(capsys, "evaluate", tmp_path / "run", data)[0]


def test_texts_are_learned_and_predicted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words = random.choice("the a house door wall roof near of with old".split(), (120, 12))
    kinds = random.choice(["fruit", "metal"], 120)
    for i, kind in enumerate(kinds):
        words[i, random.integers(12)] = {"fruit": "apple", "metal": "iron"}[kind]
    frame = pl.DataFrame({"note": [" ".join(row) for row in words], "kind": kinds})
    frame.with_columns(kind=pl.when(pl.int_range(120) < 40).then("kind")).write_csv(tmp_path / "d.csv")
    frame.write_csv(tmp_path / "test.csv")
    words_ = ("fit", tmp_path / "d.csv", "--label", "kind", "--test", tmp_path / "test.csv", "--out", tmp_path / "run")
    found = json.loads(run(capsys, *words_, "--json")[0])
    assert found["metrics"]["accuracy, test"] > 0.9
    out, _ = run(capsys, "predict", tmp_path / "run", tmp_path / "test.csv", "--proba")
    assert out.splitlines()[0] == "row,kind,P(kind=fruit),P(kind=metal)"
    assert "note: apple" in (tmp_path / "run" / "summary.json").read_text()
