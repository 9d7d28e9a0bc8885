"""Names and values as rule text: which words are taken, what needs quotes, what an element of an array is called."""

from __future__ import annotations

import re

Value = bool | int | str
RESERVED = frozenset(
    "not and or xor implies iff in true false all any none exactly_one exactly at_most at_least".split()
)
_QUOTED = RESERVED | {"if", "then", "else", "div", "mod"}  # names that mean something else in some places
_PLAIN = re.compile(r"[^\W\d]\w*\Z")
_INDEX = r"(?:0|-?[1-9][0-9]{0,14}|[^\W\d]\w*)"
ELEMENT = re.compile(rf"([^\W\d]\w*)\[({_INDEX}(?:,{_INDEX})*)\]\Z")  # of an array: cell[1,9], has[cat]


def quoted(name: Value) -> str:
    """A name or value as rule text: in quotes where it has other characters or is a word of the language."""
    if not isinstance(name, str) or (_PLAIN.match(name) and name not in _QUOTED):
        return str(name)
    element = ELEMENT.match(name) if name.endswith("]") else None
    if element and _QUOTED.isdisjoint((element[1], *element[2].split(","))):
        return name
    return in_quotes(name)


def in_quotes(text: str) -> str:
    """A text as it stands in rule text, in quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
