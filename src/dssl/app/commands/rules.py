"""`dssl rules`: what a page of rules says, checked, counted, listed, compiled, explained, or learnt from labels."""

from __future__ import annotations

import shlex
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from dssl.app.terminal import Terminal, UsageError, in_file
from dssl.errors import DataError, RuleError

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

app = App(name="rules", help="Check, count, list, compile, explain or learn rules.", help_format="plaintext")
_FILE = Parameter(help="File of rules.")
_JSON = Parameter(help="Print one JSON object, and nothing else, on stdout.", negative="")
_FEW = 256  # labels that are counted by listing them, which needs no compiler


@app.command
def check(
    file: Annotated[Path, _FILE],
    /,
    *,
    strict: Annotated[bool, Parameter(help="Exit with 1 if there is anything to warn of.", negative="")] = False,
    json: Annotated[bool, _JSON] = False,
) -> int:
    """Read rules: errors with their place, values and rules that may not be meant so, and how many labels are valid."""
    terminal = Terminal(as_json=json)
    space = _read(file)
    found = space.diagnose().findings
    terminal.say(f"{file}: {_number(len(space.variables), 'variable')}, {_number(len(space.rules), 'rule')}")
    for finding in found:
        terminal.warn(str(finding))
    count = _count(space)
    terminal.say(f"{count:,} of {_possible(space):,} labels are valid")
    terminal.result(
        {
            "file": str(file), "variables": [v.name for v in space.variables], "rules": len(space.rules),
            "valid": count, "findings": [_finding(f) for f in found],
        }
    )  # fmt: skip
    return 1 if strict and found else 0


@app.command
def count(file: Annotated[Path, _FILE], /, *, json: Annotated[bool, _JSON] = False) -> None:
    """How many labels obey the rules."""
    terminal = Terminal(as_json=json)
    found = _count(_read(file))
    terminal.say(str(found))
    terminal.result({"file": str(file), "valid": found})


@app.command(name="list")
def list_(
    file: Annotated[Path, _FILE],
    /,
    *,
    limit: Annotated[int, Parameter(help="Labels to list at most.")] = 20,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """The labels that obey the rules."""
    if limit < 1:
        raise UsageError(f"--limit {limit} lists nothing\nGive a number from 1.")
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
    json: Annotated[bool, _JSON] = False,
) -> None:
    """Compile rules to the circuit that answers questions about valid labels, and say how large it is."""
    writers = {".npz", ".nnf", ".svg", ".dot"}
    if out is not None and out.suffix not in writers:
        raise UsageError(f"--out {out}: a circuit is written as {', '.join(sorted(writers))}\nName it so.")
    if not budget_s > 0:
        raise UsageError(f"--budget-s {budget_s:g} leaves no time\nGive seconds above 0.")
    if budget_nodes < 1:
        raise UsageError(f"--budget-nodes {budget_nodes} leaves no room\nGive a number from 1.")
    terminal = Terminal(as_json=json)
    space = _read(file)
    began = time.perf_counter()
    circuit = space.compile(budget_s=budget_s, budget_nodes=budget_nodes, progress=not json)
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
def explain(
    file: Annotated[Path, _FILE],
    /,
    *,
    label: Annotated[str | None, Parameter(help='A label, whole or in part, as in "legs=1 species=cat".')] = None,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """Why rules contradict each other, what they force or repeat, or what is wrong with a label."""
    terminal = Terminal(as_json=json)
    try:
        space = _read(file)
    except RuleError as error:
        if not _contradiction(error):
            raise
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
        terminal.say("no valid label is like this: it breaks" + (" together" if found.impossible.any() else ""))
        for rule in rules:
            terminal.say(f"  {rule}")
        mended = [name for name in record if not space.check([{k: v for k, v in record.items() if k != name}])]
        for name in mended:
            terminal.say(f"valid again without {name}={record[name]}")
        facts["mended_without"] = mended
    else:
        full = space.decode(space.complete([record]))[0]
        forced = {name: value for name, value in full.items() if value is not None and name not in record}
        terminal.say("valid" + (f", and so are forced: {_label(forced)}" if forced else ""))
        facts["forced"] = forced
    terminal.result(facts)


def _record(space: LabelSpace, label: str) -> dict[str, str]:
    """The entries of a label written as name=value."""
    out = {}
    for word in shlex.split(label.replace(",", " ")):
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
    labels: Annotated[Path, Parameter(help="File of labels, a column each: CSV, Parquet, NPZ or ARFF.")],
    /,
    *,
    columns: Annotated[
        list[str] | None, Parameter(help="Columns that are labels. Default: all.", consume_multiple=True, negative="")
    ] = None,
    rules: Annotated[Path | None, Parameter(help="Rules that are known already.")] = None,
    out: Annotated[Path | None, Parameter(help="File for the rules.")] = None,
    tolerance: Annotated[float, Parameter(help="Share of exceptions that a rule may have.")] = 0.0,
    level: Annotated[float, Parameter(help="Chance that any rule found is a fluke.")] = 0.05,
    max_clause: Annotated[int, Parameter(help="Labels that a clause joins at most.")] = 3,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """Read rules out of labels, with how often each holds and how surely."""
    from dssl.app.columns import require
    from dssl.app.labelling import label_frame
    from dssl.app.tables import read
    from dssl.logic.induction import learn_rules

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
    """The space of a file; errors name the file. Rules that contradict each other are a `RuleError`."""
    from dssl.logic.sources import read_text
    from dssl.logic.space import LabelSpace

    text = read_text(file)
    try:
        return LabelSpace(text)
    except RuleError as error:
        if _contradiction(error):
            raise
        raise in_file(error, file) from None


def _contradiction(error: RuleError) -> bool:
    return error.reason.startswith("these rules contradict each other")


def _count(space: LabelSpace) -> int:
    """How many labels are valid; few are listed, for want of a reason to load the compiler."""
    few = sum(1 for _ in islice(space.valid(), _FEW + 1))
    return few if few <= _FEW else space.count()


def _possible(space: LabelSpace) -> int:
    product = 1
    for variable in space.variables:
        product *= len(variable.values)
    return product


def _label(label: dict[str, Any]) -> str:
    return " ".join(f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in label.items())


def _finding(finding: Any) -> dict[str, Any]:
    return {"kind": finding.kind, "message": finding.message, "rules": [str(rule) for rule in finding.rules]}


def _number(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
