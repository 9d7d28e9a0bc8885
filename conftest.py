"""Runs every example of the documentation, the README files and the docstrings.

A page is one namespace from top to bottom; so is the docstring of a class or function.
"""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

from shown import evaluate, forget

_pages = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        CodeBlockParser("console", evaluate),
        CodeBlockParser("bash", evaluate),
        SkipParser(),
    ],
    patterns=["docs/*.md", "docs/recipes/*.md", "examples/*/README.md", "README.md"],
    teardown=forget,
)
_docstrings = Sybil(
    parsers=[DocTestParser(optionflags=ELLIPSIS)],
    patterns=["src/dssl/**/*.py"],
    document_types={".py": PythonDocStringDocument},
    setup=lambda namespace: namespace.update(_public_names()),
)


def _public_names() -> dict[str, object]:
    import dssl

    return {name: getattr(dssl, name) for name in dssl.__all__}


pytest_collect_file = (_pages + _docstrings).pytest()
