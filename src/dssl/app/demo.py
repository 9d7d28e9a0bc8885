"""The demonstration that `make demo` runs: from a page of rules to exact answers about labels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from dssl import LabelSpace, RuleError

RULES = """\
species: {cat, dog, trout, eagle}
legs, fins, wings, gills
age: 0..9

species in {cat, dog} -> legs & !wings
species = trout -> fins & gills
species = eagle -> wings & legs
legs -> !fins
gills -> fins
age >= 2 -> !gills
0.9 :: wings -> age >= 1
"""
MISTAKE = "legs, fins, wings\nlegs -> !fisn\n"
CLASH = "legs, fins\nlegs -> fins\nlegs -> !fins\nlegs = true\n"
LABELS = [
    {"species": "cat", "legs": True, "fins": False},
    {"species": "trout", "legs": True},
    {"species": "eagle", "age": 3},
]


def main() -> None:
    """Walk from rules to answers, with what each step took."""
    console = Console()
    console.print(Panel(RULES.rstrip(), title="animals.rules", expand=False))
    with _step(console, "reading the rules"):
        space = LabelSpace(RULES)
    console.print(f"  {len(space.variables)} variables, {len(space.rules)} rules, {space.width} network outputs\n")
    _mistakes(console)
    with _step(console, "asking what stands out"):
        diagnosis = space.diagnose()
    console.print(f"  {diagnosis}\n", highlight=False)
    with _step(console, "compiling the rules to a circuit"):
        circuit = space.compile(progress=True)
    console.print(f"  {circuit.count():,} valid labels, {circuit.nodes} nodes, {circuit.edges} edges\n")
    _labels(console, space)
    _answers(console, space)


@contextmanager
def _step(console: Console, what: str) -> Iterator[None]:
    console.print(f"[bold]{what}[/bold] …", end=" ")
    begin = time.perf_counter()
    yield
    console.print(f"[dim]{time.perf_counter() - begin:.2f} s[/dim]")


def _mistakes(console: Console) -> None:
    for title, text in (("a misspelt name", MISTAKE), ("rules that clash", CLASH)):
        try:
            LabelSpace(text)
        except RuleError as error:
            console.print(Panel(str(error), title=title, expand=False, border_style="red"), highlight=False)
    console.print()


def _labels(console: Console, space: LabelSpace) -> None:
    console.print("[bold]labels against the rules[/bold]")
    for label, full in zip(LABELS, _completed(space)):
        console.print(f"  {label}\n    → {full}", highlight=False)
    console.print()


def _completed(space: LabelSpace) -> Iterator[str]:
    for label in LABELS:
        found = space.check([label])
        if found:
            broken = [rule.text for _, rules in found for rule in rules]
            yield "breaks " + " and ".join(f"'{text}'" for text in broken)
        else:
            full = space.decode(space.complete([label]))[0]
            yield ", ".join(f"{name}={value}" for name, value in full.items() if value is not None)


def _answers(console: Console, space: LabelSpace) -> None:
    """What a network unsure of everything but the fins would be told."""
    import torch

    theta_logits = torch.zeros(1, space.width)
    theta_logits[0, space.columns.index("fins")] = 2.0
    log_pos = torch.nn.functional.logsigmoid(theta_logits)
    log_neg = torch.nn.functional.logsigmoid(-theta_logits)
    for variable, (start, stop) in zip(space.variables, space.spans):
        if not variable.binary:
            log_pos[:, start:stop] = torch.log_softmax(theta_logits[:, start:stop], dim=-1)
            log_neg[:, start:stop] = 0.0
    circuit = space.compile()
    with _step(console, "asking the circuit: a network believes in fins (0.88) and nothing else"):
        chance = circuit.log_wmc(log_pos, log_neg).exp().item()
        marginals = circuit.marginals(log_pos, log_neg)[0]
        best, _ = circuit.mpe(log_pos, log_neg)
    table = Table("output", "θ, the network's", "given the rules", "most probable valid label")
    for i, column in enumerate(space.columns):
        if not column.startswith("age"):
            table.add_row(column, f"{log_pos[0, i].exp():.3f}", f"{marginals[i]:.3f}", "yes" if best[0, i] else "")
    console.print(table)
    console.print(f"the rules hold with probability {chance:.3f} under θ: its log is the semantic loss, negated")


if __name__ == "__main__":
    main()
