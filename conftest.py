"""Runs every example of the documentation, the README and the docstrings.

A page is one namespace from top to bottom; so is the docstring of a class or function.
"""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

_pages = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE), SkipParser()],
    patterns=["docs/*.md", "README.md"],
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
