"""Faults that survived, were read, and change nothing that a test should hold: each with its reason.

`tests/trust/test_mutants.py` holds that the lines are still there.
"""

from __future__ import annotations

MEMORY = "sets how much is done at once or by which of two equal routes: the same answer"
SAME_AXIS = "names the same axis, or the same end of a list, in another way"
STATIC = "autograd calls these on the class, where a plain function serves as well"
NO_OTHER = "tells the only two values there can be apart as well as the original"
ORDER = "levels are only compared, and their order stays the same"
CLOCK = "moves a limit of seconds or steps, which decides when, not what"

# module, part of the line as it was, part of the line as it became ("" for any), reason
READ: list[tuple[str, str, str, str]] = [
    ("queries", "_HELD = 1 << 24", "", MEMORY),
    ("queries", "step = max(1, _HELD", "", MEMORY),
    ("queries", "_GRAIN = 32_768", "", MEMORY),
    ("queries", "if ctx.mu.numel() < _GRAIN", "", MEMORY),
    ("queries", "@staticmethod", "", STATIC),
    ("queries", "weights = ctx.saved_tensors[:2]", "[: 3]", SAME_AXIS),
    ("queries", "nan_to_num(0, 0, 0)", "", "evidence does not vary, so any finite direction is multiplied by zero"),
    ("relaxations", "ends.flip(0)", "flip( -1)", SAME_AXIS),
    ("relaxations", 'self.objective == "q"', 'self.objective >= "q"', NO_OTHER),
    ("formula", "level: int = 0", "", ORDER),
    ("formula", "level = 9", "", ORDER),
    ("formula", "level = 3", "level = 2", ORDER),
    ("formula", "quoted(self.values[0])", "[ -1]", SAME_AXIS),
    ("formula", "return Not(parts[0])", "[ -1]", SAME_AXIS),
    ("formula", "return flat[0] if len(flat) == 1", "flat[ -1]", SAME_AXIS),
    ("formula", "return flat[0] if len(flat) == 1", "<= 1", "no connective is made of no parts"),
    ("formula", "most < 2**62", "", "Python's integers where numpy's would do: slower, the same masks"),
    ("formula", "both[0] & both[1]", "both[0] * both[1]", "and of booleans is their product"),
    ("formula", "type(arg) is cls", "type(arg) == cls", "types are equal only to themselves"),
    ("formula", "\n@dataclass(frozen=True)", "", "And, Or and Xor inherit all that the decorator gives from _Joined"),
    ("turns", "SLICE_S = 0.03", "", CLOCK),
    ("compiler", "WORTH_KEEPING_S = 0.02", "", CLOCK),
    ("turns", "HEAD_START = 20_000", "", CLOCK),
    ("turns", "QUICK = 200_000_000", "", CLOCK),
    ("budget", "_REPORT_S = 0.5", "", CLOCK),
    ("compiler", "budget_nodes: int = 20_000_000", "", CLOCK),
    ("turns", "FIRST_SLICE, LEAST_SLICE = 200_000, 1000", "", CLOCK),
    ("compiler", "flush=True", "flush=False", "Python writes standard error at the end of every line anyway"),
    ("compiler", "b = members[0]", "[ -1]", "b is used only where there is one member"),
    ("compiler", "if len(members) > 1", "> 2", "selections have one member, or three and more (`selections.SMALLEST`)"),
    ("compiler", "constraints.sizes[b] == 1", "== 0", "no node is ever made of a block with one value"),
    ("compiler", "out += [0] * constraints.sizes[b]", "", "no node is ever made of a hidden block"),
]


def reason(module: str, before: str, after: str) -> str:
    """Why a fault changes nothing; empty if it was not read, or does."""
    return next((why for name, was, became, why in READ if name == module and was in before and became in after), "")
