"""`python -m lumia` is the `lumia` command."""

from __future__ import annotations

from lumia.cli import main

if __name__ == "__main__":
    main()
