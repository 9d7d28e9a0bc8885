"""`dssl rules`: what a page of rules says: checked, counted, listed, shown, tidied, compiled, explained, or learned."""

from __future__ import annotations

import math
import re
import shlex
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from dssl.app.terminal import JSON, Terminal, UsageError
from dssl.errors import BudgetError, ContradictionError, DataError

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

app = App(
    name="rules", help="Check, count, list, show, format, compile, explain or learn rules.", help_format="plaintext"
)
_FILE = Parameter(help="File of rules, or of JSON as show --json writes it.")
_BETWEEN = re.compile(r",(?![^\[\]]*\])")  # commas, except inside the index of an array's element
_CHECKING = 20.0  # seconds that counting may take where it is not all that was asked for
_FEW = 256  # labels that are counted by listing them, at most


@app.command
def check(
    file: Annotated[Path, _FILE],
    /,
    *,
    strict: Annotated[bool, Parameter(help="Exit with 1 if there are warnings.", negative="")] = False,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Check rules: show errors with their place, point out what may be unintended, and count the valid labels."""
    terminal = Terminal(as_json=json)
    space = _read(file)
    found = space.diagnose().findings
    terminal.say(f"{file}: {_number(len(space.variables), 'variable')}, {_number(len(space.rules), 'rule')}")
    for finding in found:
        terminal.warn(str(finding))
    every = math.prod(len(v.values) for v in space.variables)
    try:
        count: int | None = _count(space, budget_s=_CHECKING)
        terminal.say(f"{count:,} of {every:,} labels are valid")
    except BudgetError:
        count = None
        terminal.say(f"some of {every:,} labels are valid; counting them takes more than {_CHECKING:g} s")
    terminal.result(
        {
            "file": str(file), "variables": [v.name for v in space.variables], "rules": len(space.rules),
            "valid": count, "findings": [_finding(f) for f in found],
        }
    )  # fmt: skip
    return 1 if strict and found else 0


@app.command
def count(file: Annotated[Path, _FILE], /, *, json: Annotated[bool, JSON] = False) -> None:
    """Count the labels that obey the rules."""
    terminal = Terminal(as_json=json)
    found = _count(_read(file))
    terminal.say(str(found))
    terminal.result({"file": str(file), "valid": found})


@app.command(name="list")
def list_(
    file: Annotated[Path, _FILE],
    /,
    *,
    limit: Annotated[int, Parameter(help="How many labels to list, at most.")] = 20,
    json: Annotated[bool, JSON] = False,
) -> None:
    """List the labels that obey the rules."""
    if limit < 1:
        raise UsageError(f"--limit {limit} lists nothing\nGive 1 or more.")
    terminal = Terminal(as_json=json)
    space = _read(file)
    labels = list(space.valid(limit + 1))
    for label in labels[:limit]:
        terminal.say(_label(label))
    if len(labels) > limit:
        terminal.say(f"… and more: dssl rules count {file} says how many, --limit shows them")
    terminal.result({"file": str(file), "labels": labels[:limit], "complete": len(labels) <= limit})


@app.command(name="compile")
def compile_(
    file: Annotated[Path, _FILE],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="File for the circuit: .npz, .nnf, or a picture: .svg, .dot.")] = None,
    budget_s: Annotated[float, Parameter(help="Seconds after which to give up.")] = 60.0,
    budget_nodes: Annotated[int, Parameter(help="Nodes at which to give up.")] = 20_000_000,
    budget_bytes: Annotated[
        int | None, Parameter(help="Bytes at which to give up. Default: half of the memory.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Compile rules to the circuit that answers questions about valid labels, and say how large it is."""
    writers = {".npz", ".nnf", ".svg", ".dot"}
    if out is not None and out.suffix not in writers:
        raise UsageError(
            f"--out {out}: a circuit is written as {', '.join(sorted(writers))}\nGive the file one of these endings."
        )
    if not budget_s > 0:
        raise UsageError(f"--budget-s {budget_s:g} leaves no time\nGive seconds above 0.")
    if budget_nodes < 1:
        raise UsageError(f"--budget-nodes {budget_nodes} leaves no room\nGive 1 or more.")
    if budget_bytes is not None and budget_bytes < 1:
        raise UsageError(f"--budget-bytes {budget_bytes} leaves no room\nGive 1 or more.")
    terminal = Terminal(as_json=json)
    space = _read(file)
    began = time.perf_counter()
    circuit = space.compile(budget_s=budget_s, budget_nodes=budget_nodes, budget_bytes=budget_bytes, progress=not json)
    seconds = time.perf_counter() - began
    valid = circuit.count()
    terminal.say(f"{circuit.nodes:,} nodes, {circuit.edges:,} edges, {valid:,} valid labels, {seconds:.2f} s")
    if out is not None:
        _write(circuit, out)
        terminal.say(f"written to {out}")
    terminal.result(
        {
            "file": str(file), "nodes": circuit.nodes, "edges": circuit.edges, "valid": valid,
            "seconds": round(seconds, 4), "out": out and str(out),
        }
    )  # fmt: skip


def _write(circuit: Any, out: Path) -> None:
    if out.suffix == ".npz":
        circuit.save(out)
        return
    from dssl.files import write_whole

    texts = {".nnf": circuit.to_nnf, ".svg": circuit.to_svg, ".dot": circuit.to_dot}
    try:
        text = texts[out.suffix]()
    except ValueError as error:
        raise DataError(str(error)) from None
    write_whole(out, text.encode())


@app.command
def show(
    file: Annotated[Path, _FILE],
    /,
    *,
    expand: Annotated[bool, Parameter(help="Write loops out, one rule per line.", negative="")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Print the variables and rules as they were read."""
    from dssl.logic import json_form
    from dssl.logic.language.parser import text_of

    terminal = Terminal(as_json=json)
    space = _read(file)
    text = text_of(space.variables, space.rules, written_out=expand)
    terminal.say(text.rstrip("\n"))
    held = json_form.facts(space.variables, space.rules, space.literal_weights)
    terminal.result({"file": str(file), "text": text, **held})


@app.command(name="format")
def format_(
    file: Annotated[Path, _FILE],
    /,
    *,
    check: Annotated[bool, Parameter(help="Change nothing; exit with 1 if the file is not tidy.", negative="")] = False,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Tidy a file of rules: set the usual spaces. Comments, indents and the meaning stay as they are."""
    from dssl.files import write_whole
    from dssl.logic.language.parser import parse
    from dssl.logic.language.tokens import Source, tidied
    from dssl.logic.sources import read_text

    terminal = Terminal(as_json=json)
    _read(file)  # an error, with its place, for rules that cannot be read
    text = read_text(file)
    tidy = tidied(Source(text.removeprefix("\ufeff")))
    changed = tidy != text and parse(tidy, file.parent) == parse(text, file.parent)
    if changed and not check:
        write_whole(file, tidy.encode())
    terminal.say(f"{file}: {'not tidy' if changed and check else 'tidied' if changed else 'tidy'}")
    terminal.result({"file": str(file), "changed": changed})
    return 1 if changed and check else 0


@app.command
def explain(
    file: Annotated[Path, _FILE],
    /,
    *,
    label: Annotated[str | None, Parameter(help='A label, whole or in part, as in "legs=1 species=cat".')] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Explain why rules contradict each other, what they force, what is redundant, or what is wrong with a label."""
    terminal = Terminal(as_json=json)
    try:
        space = _read(file)
    except ContradictionError as error:
        terminal.say(str(error))
        terminal.result({"file": str(file), "consistent": False, "explanation": str(error)})
        return
    if label is not None:
        _explain_label(space, label, file, terminal)
        return
    found = space.diagnose()
    terminal.say("the rules do not contradict each other\n" + str(found))
    terminal.result({"file": str(file), "consistent": True, "findings": [_finding(f) for f in found.findings]})


def _explain_label(space: LabelSpace, label: str, file: Path, terminal: Terminal) -> None:
    record = _record(space, label)
    found = space.check([record])
    rules = [str(rule) for _, broken in found for rule in broken]
    facts: dict[str, Any] = {"file": str(file), "label": record, "valid": not found, "broken": rules}
    if found:
        alone = not found.impossible.any()
        terminal.say(
            "this label breaks" if alone else "no valid label agrees with this: together, these rules forbid it"
        )
        for rule in rules:
            terminal.say(f"  {rule}")
        mended = [name for name in record if not space.check([{k: v for k, v in record.items() if k != name}])]
        for name in mended:
            terminal.say(f"valid again without {name}={record[name]}")
        facts["mended_without"] = mended
    else:
        full = space.decode(space.complete([record]))[0]
        forced = {name: value for name, value in full.items() if value is not None and name not in record}
        terminal.say("valid" + (f", and it follows that {_label(forced)}" if forced else ""))
        facts["forced"] = forced
    terminal.result(facts)


def _record(space: LabelSpace, label: str) -> dict[str, str]:
    """The entries of a label written as name=value."""
    out = {}
    for word in shlex.split(_BETWEEN.sub(" ", label)):
        name, equals, value = word.partition("=")
        if not equals:
            raise DataError(f"'{word}' in --label is not name=value\nWrite labels as in \"legs=1 species=cat\".")
        out[name] = value
    if not out:
        raise DataError('--label is empty\nWrite labels as in "legs=1 species=cat".')
    space.encode([out])  # an error for what is not declared
    return out


@app.command
def learn(
    labels: Annotated[Path, Parameter(help="File of labels, one column per variable: CSV, Parquet, NPZ or ARFF.")],
    /,
    *,
    columns: Annotated[
        list[str] | None, Parameter(help="Columns that are labels. Default: all.", consume_multiple=True, negative="")
    ] = None,
    rules: Annotated[Path | None, Parameter(help="Rules that are known already.")] = None,
    out: Annotated[Path | None, Parameter(help="File for the rules.")] = None,
    tolerance: Annotated[float, Parameter(help="Share of exceptions that a rule may have.")] = 0.0,
    level: Annotated[float, Parameter(help="Chance that any rule found is a fluke.")] = 0.05,
    max_clause: Annotated[int, Parameter(help="How many labels one rule may join, at most.")] = 3,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Learn rules from labels, and say how often each holds and how certain it is."""
    from dssl.data.columns import require
    from dssl.data.labelling import label_frame
    from dssl.data.tables import read
    from dssl.logic.induction.learning import learn_rules

    terminal = Terminal(as_json=json)
    table = read(labels)
    require(table, columns or (), "--columns")
    frame = label_frame(table, columns or table.labels or table.names)
    known = _read(rules) if rules is not None else None
    found = learn_rules(frame, space=known, tolerance=tolerance, level=level, max_clause=max_clause)
    terminal.say(str(found))
    if out is not None:
        found.save(out)
        terminal.say(f"\n{_number(len(found.rules), 'rule')} written to {out}")
    elif not json:
        terminal.say(f"\n{found.text}")
    terminal.result(
        {
            "file": str(labels), "out": out and str(out), "rows": found.rows,
            "text": found.text, "limits": found.limits,
            "rules": [{"rule": r.text, "kind": r.kind, "support": r.support, "failures": r.failures, "bound": r.bound}
                      for r in found.rules],
        }
    )  # fmt: skip


# ---- shared ----


def _read(file: Path) -> LabelSpace:
    """The space of a file; errors name the file."""
    from dssl.logic.space import LabelSpace

    return LabelSpace.read(file)


def _count(space: LabelSpace, budget_s: float = 60.0) -> int:
    """How many labels are valid; a few are counted by listing them, which spares loading the compiler."""
    few = sum(1 for _ in islice(space.valid(), _FEW + 1))
    return few if few <= _FEW else space.compile(budget_s=budget_s).count()


def _label(label: dict[str, Any]) -> str:
    return " ".join(f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in label.items())


def _finding(finding: Any) -> dict[str, Any]:
    return {"kind": finding.kind, "message": finding.message, "rules": [str(rule) for rule in finding.rules]}


def _number(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
