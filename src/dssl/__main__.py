"""`python -m dssl` is the command line."""

import sys

from dssl.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
