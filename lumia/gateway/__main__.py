"""`python -m lumia.gateway`: serve the bot found from here until SIGTERM."""

from __future__ import annotations

import logging
import sys

from lumia import config, opening
from lumia.errors import LumiaError
from lumia.gateway.server import serve
from lumia.gateway.settings import Settings


def main() -> int:
    """Open the bot, serve it, return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        bot, deployment = opening.open_following("gateway")
        try:
            serve(bot, Settings.of(config.get("lumia").gateway), deployment)
        finally:
            bot.close()
    except LumiaError as error:
        sys.stderr.write(f"lumia.gateway: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
