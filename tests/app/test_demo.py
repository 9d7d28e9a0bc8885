"""The demonstration runs to its end and says what it promises."""

from __future__ import annotations

import subprocess
import sys


def test_demo_walks_from_rules_to_answers() -> None:
    done = subprocess.run([sys.executable, "-m", "dssl.app.demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for said in (
        "reading the rules",
        "Did you mean 'fins'?",
        "these rules contradict each other",
        "34 valid labels",
        "breaks 'species = trout -> fins & gills' and 'legs -> !fins'",
        "most probable",
        "training on digits",
        "50 labels, rules, unlabelled rows",
        "invalid, raw",
    ):
        assert said in done.stdout
