"""The grammar for editors colours what the language reads: every token of the documentation, every word it knows.

A TextMate grammar is regular expressions tried at each place of a line; the earliest match wins, the first of several.
`scopes` is that in a few lines, for Python's `re`: the grammar uses nothing that Oniguruma reads differently.
"""

from __future__ import annotations

import ast
import doctest
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dssl.errors import RuleError
from dssl.logic.language.parser import parse
from dssl.logic.language.quoting import RESERVED
from dssl.logic.language.structures.hierarchy import OPTIONS
from dssl.logic.language.terms import ALL as FUNCTIONS
from dssl.logic.language.tokens import _BETWEEN, _WORDS, Source, statements

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "editors"
GRAMMAR = json.loads((FOLDER / "dssl.tmLanguage.json").read_text())
Patterns = list[tuple[re.Pattern[str], dict[str, Any]]]


def flat(patterns: list[dict[str, Any]]) -> Patterns:
    """The patterns to try, in their order, with what they include in its place."""
    out: Patterns = []
    for pattern in patterns:
        if "include" in pattern:
            out += flat([GRAMMAR["repository"][pattern["include"].removeprefix("#")]])
        elif "match" in pattern or "begin" in pattern:
            out.append((re.compile(pattern.get("match") or pattern["begin"]), pattern))
        else:
            out += flat(pattern["patterns"])
    return out


ALL = flat(GRAMMAR["patterns"])


def scopes(line: str) -> list[str]:
    """The scope of each character of a line, without the name of the language; "" for none."""
    out, at = [""] * len(line), 0
    while at < len(line):
        found = [(match.start(), i, match) for i, (regex, _) in enumerate(ALL) if (match := regex.search(line, at))]
        if not found:
            break
        _, i, match = min(found, key=lambda each: each[:2])
        pattern, end = ALL[i][1], match.end()
        if "begin" in pattern:
            inner = flat(pattern["patterns"])
            closing = re.compile(pattern["end"])
            while True:
                close = closing.search(line, end)
                assert close is not None
                skipped = [m for regex, _ in inner if (m := regex.search(line, end)) and m.start() < close.start()]
                if not skipped:
                    break
                end = skipped[0].end()
            end = close.end()
        out[match.start() : end] = [pattern["name"].removesuffix(".dssl-rules")] * (end - match.start())
        at = max(end, at + 1)
    return out


def texts() -> Iterator[str]:
    """All rule text in the documentation: what stands in quotes in an example and can be read as rules."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for example in doctest.DocTestParser().get_examples(page.read_text()):
            for node in ast.walk(ast.parse(example.source)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 3:
                    try:
                        parse(node.value, ROOT)
                    except RuleError:
                        continue
                    yield node.value


TEXTS = sorted(set(texts()))
KEYWORDS = {"for", "where", "if", "then", "else", "div", "mod", "in", "true", "false"}


def wanted(source: Source, token: Any, after: str) -> str:
    """The scope of a token, by what the language itself reads it as."""
    if token.kind == "op":
        word = source.word(token)
        return "keyword.operator.word" if word in _WORDS else "keyword.operator|punctuation"
    if token.kind == "name":
        if token.text in KEYWORDS:
            return "keyword.control|keyword.operator.word|constant.language"
        return "support.function" if token.text in FUNCTIONS and after == "(" else "variable.other|storage"
    return {"string": "string.quoted.double", "number": "constant.numeric"}[token.kind]


def test_rule_text_is_found_in_the_documentation() -> None:
    assert len(TEXTS) > 80
    joined = "\n".join(TEXTS)
    for word in ("hierarchy one path:", "regular(", "rule kin(", "0.9 ::", "# ", "where", "if a then", "element("):
        assert word in joined


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.strip()[:30].replace("\n", " "))
def test_every_token_of_the_documentation_has_the_scope_of_its_kind(text: str) -> None:
    source = Source(text)
    found = [scope for line in source.text.split("\n") for scope in [*scopes(line), "\n"]]
    for tokens in statements(source):
        for token, after in zip(tokens, [*tokens[1:], None]):
            if after is None:
                continue
            length = len(source.word(token)) if token.kind == "op" else len(token.text)
            given = set(found[token.at : token.at + length])
            allowed = wanted(source, token, after.text).split("|")
            assert given
            assert all(scope.startswith(tuple(allowed)) for scope in given), (token, given)
    for comment in re.finditer(r"(?m)^\s*#.*$", source.text):
        assert set(found[comment.end() - 1 : comment.end()]) == {"comment.line.number-sign"}


@pytest.mark.parametrize("word", sorted({*RESERVED, *FUNCTIONS, *_WORDS, *_BETWEEN}))
def test_every_word_of_the_language_is_in_the_grammar(word: str) -> None:
    line = f"x & {word}(a)" if word in FUNCTIONS else f"x {word} a"
    assert scopes(line)[4 if word in FUNCTIONS else 2].startswith(("keyword.", "support.function", "constant.language"))
    assert not scopes(f"x {word}y a")[2].startswith(("keyword.", "support.function", "constant.language"))


@pytest.mark.parametrize("option", OPTIONS)
def test_options_of_hierarchies_and_definitions_are_in_the_grammar(option: str) -> None:
    found = scopes(f"hierarchy {option}: cat < animal")
    assert found[0] == "storage.type"
    assert found[10] == found[9 + len(option)] == "storage.modifier"
    assert scopes("rule kin(a, b) = a")[0] == "storage.type"
    assert scopes("rule -> a")[0] == "variable.other"


def test_comments_strings_and_numbers() -> None:
    found = scopes(r'"a # \" b": 0.5 :: x <= 1..9 # for "all"')
    assert set(found[:10]) == {"string.quoted.double"}
    assert found[10] == "punctuation"
    assert found[12:15] == ["constant.numeric"] * 3
    assert found[16:18] == ["keyword.operator"] * 2
    assert found[24:28] == ["constant.numeric", "keyword.operator", "keyword.operator", "constant.numeric"]
    assert set(found[29:]) == {"comment.line.number-sign"}


def test_a_grammar_without_a_word_would_be_noticed() -> None:
    assert scopes("x whereas a")[2] == "variable.other"
    assert scopes("legs(a)")[0] == "variable.other"


def test_the_extension_names_files_that_are_there() -> None:
    manifest = json.loads((FOLDER / "package.json").read_text())
    (language,), (grammar,) = manifest["contributes"]["languages"], manifest["contributes"]["grammars"]
    assert json.loads((FOLDER / language["configuration"]).read_text())["comments"] == {"lineComment": "#"}
    assert (
        json.loads((FOLDER / grammar["path"]).read_text())["scopeName"] == grammar["scopeName"] == "source.dssl-rules"
    )
    assert (language["id"], language["extensions"]) == (grammar["language"], [".rules"])
