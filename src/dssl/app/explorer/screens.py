"""Which row each open page shows, so that two people who label at once are given different rows."""

from __future__ import annotations

import time
from collections import OrderedDict

KEPT_S = 600.0  # for which a row stays with a page that is not heard of again
_MOST = 1000  # pages


class Screens:
    """Rows by page. A page that asks for its next row gives up the one it had."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def show(self, page: str, row: int) -> None:
        self._shown[page] = row, time.monotonic()
        self._shown.move_to_end(page)
        while len(self._shown) > _MOST:
            self._shown.popitem(last=False)

    def taken(self, page: str) -> list[int]:
        """Rows on other pages."""
        now = time.monotonic()
        return sorted(row for other, (row, at) in self._shown.items() if other != page and now - at < KEPT_S)
