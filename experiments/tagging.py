"""Names in generated sentences: BIO tags learned from 5 % labelled sentences, with rules and without.

    python experiments/tagging.py                # everything; what is done is not done again
    python experiments/tagging.py --seeds 2

A sentence is 12 words: common words, and names of people (one to three words) and of places (one or two). Some words
are both, and a few words before a name tell which ("mr", "in"). A tag is O, B or I of a kind, and the rule says that a
name goes on only behind its own beginning:

    tag[1..12]: {O, B_per, I_per, B_loc, I_loc}
    regular(tag[*], "(O | B_per I_per* | B_loc I_loc*)*")

The estimator has its defaults, with `network="sequence"`: small convolutions along the sentence. Without rules it
learns from the labelled sentences alone; *decoded* is the same model with the rules in its predictions only. With rules
in training the other sentences teach it too. Test sentences are new ones. From how many whole rows on frequencies are
balanced in each place (30) was settled after seeing seeds 0 to 4.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from ledger import Case, Ledger, load, markdown, percent, summary
from numpy.typing import NDArray

from dssl import DSSLClassifier, LabelSpace
from dssl.models.decoding import Decoder

LENGTH = 12
TAGS = ("O", "B_per", "I_per", "B_loc", "I_loc")
ARRAY = f"tag[1..{LENGTH}]: {{{', '.join(TAGS)}}}\n"
RULE = 'regular(tag[*], "(O | B_per I_per* | B_loc I_loc*)*")'
NO_RULES, DECODED, RULES, ALL = "no rules", "no rules, decoded with them", "rules", "rules, all sentences labelled"
METHODS = (NO_RULES, DECODED, RULES, ALL)
# words, by what they can be: numbers from 0
COMMON, FIRST, LAST, PLACE, BOTH, NEW = np.split(np.arange(620), [300, 400, 500, 570, 610])
MR, IN = 620, 621


@dataclass(frozen=True)
class Settings:
    seeds: int = 8
    sentences: int = 1000
    labelled: float = 0.05
    test: int = 1000
    told: float = 0.5  # share of the names that a word before them gives away


# ---- sentences ----


def person(random: np.random.Generator) -> list[int]:
    """First name, second name, last name: one to three words."""
    firsts = random.choice(FIRST, random.integers(0, 3)).tolist()
    last = random.choice(BOTH if random.random() < 0.3 else LAST)
    return [*firsts, int(last)] if firsts or random.random() < 0.5 else [int(random.choice(FIRST))]


def place(random: np.random.Generator) -> list[int]:
    """A city, or a new one."""
    city = int(random.choice(BOTH if random.random() < 0.3 else PLACE))
    return [int(random.choice(NEW)), city] if random.random() < 0.4 else [city]


def sentence(random: np.random.Generator, told: float) -> tuple[list[int], list[int]]:
    """Words and tags, by number."""
    words: list[int] = []
    tags: list[int] = []
    while len(words) < LENGTH:
        kind = random.choice(3, p=[0.7, 0.15, 0.15])
        if kind == 0:
            words.append(int(COMMON[int(len(COMMON) * random.random() ** 2)]))  # some are frequent
            tags.append(0)
            continue
        if random.random() < told:
            words.append(MR if kind == 1 else IN)
            tags.append(0)
        name = person(random) if kind == 1 else place(random)
        words += name
        tags += [2 * kind - 1] + [2 * kind] * (len(name) - 1)
    return words[:LENGTH], tags[:LENGTH]


def sentences(n: int, random: np.random.Generator, told: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words (n, 12) and tags (n, 12), by number."""
    made = [sentence(random, told) for _ in range(n)]
    return np.array([words for words, _ in made]), np.array([tags for _, tags in made])


# ---- one run ----


@cache
def space(rules: bool) -> LabelSpace:
    return LabelSpace(ARRAY + (RULE if rules else ""))


def one(method: str, seed: int, settings: Settings) -> Case:
    """What a method finds in new sentences."""
    random = np.random.default_rng(seed)
    x, tags = sentences(settings.sentences, random, settings.told)
    x_test, truth = sentences(settings.test, random, settings.told)
    y = np.array(TAGS, dtype=object)[tags]
    if method != ALL:
        y[round(settings.labelled * len(y)) :] = None
    ruled = method in (RULES, ALL)
    model = DSSLClassifier(space(ruled), network="sequence", calibrate=False, random_state=seed).fit(x, y)
    decoder = Decoder(space(method != NO_RULES))
    best = decoder.best(model._logits(x_test)).reshape(-1, LENGTH, len(TAGS)).argmax(-1)
    return measures(best, truth)


def measures(found: NDArray[np.int64], truth: NDArray[np.int64]) -> Case:
    """Tags right, F1 of whole names, and sentences whose tags are impossible."""
    ours, theirs = (set(names(tags)) for tags in (found, truth))
    right = len(ours & theirs)
    invalid = space(True).check(np.array(TAGS, dtype=object)[found]).invalid
    return {
        "tags": round(float(np.mean(found == truth)), 5),
        "names": round(2 * right / max(1, len(ours) + len(theirs)), 5),
        "invalid": round(float(np.mean(invalid)), 5),
    }


def names(tags: NDArray[np.int64]) -> list[tuple[int, int, int, int]]:
    """The names in tags (n, 12): sentence, first word, word behind the last, and kind. An I without a B begins one."""
    out = []
    for row, line in enumerate(tags.tolist()):
        begin, kind = 0, 0
        for at, tag in enumerate([*line, 0]):
            goes_on = kind and tag == 2 * kind
            if kind and not goes_on:
                out.append((row, begin, at, kind))
                kind = 0
            if tag and not goes_on:
                begin, kind = at, (tag + 1) // 2
    return out


# ---- records ----


def table(record: dict[str, Any]) -> str:
    """The table of docs/elements.md."""
    rows = summary(record["runs"], by=("method",), of=("tags", "names", "invalid", "seconds"))
    lines = [
        [row["method"], percent(row, "tags"), percent(row, "names"), percent(row, "invalid"), f"{row['seconds']:.0f}"]
        for row in rows
    ]
    return markdown(["", "tags right, %", "F1 of names, %", "impossible sentences, %", "seconds"], lines)


def cases(seeds: int) -> list[Case]:
    return [{"method": method, "seed": seed} for method in METHODS for seed in range(seeds)]


def main(arguments: Sequence[str] | None = None) -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=settings.seeds, help="how many of the seeds to do")
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; 0: one a processor")
    chosen = parser.parse_args(arguments)
    ledger = Ledger("tagging", settings)
    ledger.complete(partial(one, settings=settings), cases(chosen.seeds), jobs=chosen.jobs)
    ledger.keep(cases(settings.seeds))
    print(table(load("tagging")))


if __name__ == "__main__":
    main()
