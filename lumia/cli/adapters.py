"""`lumia adapters`: the bot's accounts on the platforms, how they fare, and what was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumia.cli import output
from lumia.cli.adapters_add import add
from lumia.cli.adapters_probe import check_accounts

if TYPE_CHECKING:
    from lumia.adapters import AccountInfo

COLUMNS = ("adapter", "account", "state", "since", "last event", "lag", "sends", "detail")
EPILOG = """\b
Example:
  lumia adapters
  lumia adapters --json | jq '.[] | select(.state != "connected")'
  lumia adapters add telegram
  lumia adapters test telegram/main"""


def mount(app: typer.Typer, group: typer.Typer) -> None:
    """Add the commands to the tree; group: an empty one that is made like all others."""
    group.info.invoke_without_command = True
    group.info.no_args_is_help = False
    group.info.epilog = EPILOG
    group.callback(invoke_without_command=True, no_args_is_help=False)(adapters)
    group.command("test")(check_accounts)
    group.command("add")(add)
    app.add_typer(group, name="adapters")


def adapters(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the bot's accounts: state, last event, lag, and how many sends are in which state.

    Works without a running bot, too; then it knows only what is configured.
    """
    if context.invoked_subcommand is not None:
        return
    from lumia import adapters as port
    from lumia.adapters import listing
    from lumia.cli.opened import opened
    from lumia.errors import BackendUnavailableError

    with opened():
        try:
            found = port.accounts()
        except BackendUnavailableError as error:
            found = listing.from_files()
            output.note(f"{error}. So this is only what is configured.")
    if as_json:
        output.data([as_data(one) for one in found])
    elif found:
        output.table([column.upper() for column in COLUMNS], [_row(one) for one in found])
    else:
        output.note("no account is configured; `lumia adapters add NAME` adds one, e.g. `lumia adapters add telegram`")


def as_data(info: AccountInfo) -> dict[str, Any]:
    """Return the five keys that scripts rely on, and what is to say about the state."""
    return {
        "adapter": info.adapter,
        "account": info.account,
        "state": info.state,
        "last_event": info.last_event,
        "sends": info.sends,
        "since": info.since,
        "lag": info.lag,
        "detail": info.detail,
    }


def _row(info: AccountInfo) -> list[str]:
    counted = ", ".join(f"{number} {state}" for state, number in info.sends.items())
    lag = "-" if info.lag is None else f"{info.lag:.1f} s"
    return [
        info.adapter,
        info.account,
        info.state,
        _when(info.since),
        _when(info.last_event),
        lag,
        counted or "-",
        info.detail,
    ]


def _when(seconds: float | None) -> str:
    from datetime import UTC, datetime

    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
