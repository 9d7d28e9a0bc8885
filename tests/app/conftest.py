"""The browser that pages are tested in."""

from browser import browser

__all__ = ["browser"]
