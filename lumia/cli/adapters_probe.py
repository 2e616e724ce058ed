"""`lumia adapters test`: are an account's credentials good, and does a message to its owner arrive?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lumia.cli import output

if TYPE_CHECKING:
    from lumia.adapters import Checked
    from lumia.adapters.configured import Configured
    from lumia.runtime import Runtime


def check_accounts(
    name: Annotated[str, typer.Argument(metavar="NAME[/ACCOUNT]", help="An adapter, or one of its accounts.")],
    probe: Annotated[bool, typer.Option("--probe/--no-probe", help="Send a message to the account's owner.")] = True,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait for the probe's receipt.")] = 30.0,
) -> None:
    """Ask the platform who an account is, then send its owner a message and wait for the receipt.

    The probe needs a running bot and `owner` in the account's table. The exit code is 1 when something is wrong.

    \b
    Example:
      lumia adapters test telegram
      lumia adapters test telegram/main --no-probe
    """
    from lumia.adapters import configured

    adapter, _, wanted = name.partition("/")
    with _loaded(adapter) as (bot, check):
        known = {plugin.name: plugin for plugin in configured.plugins(bot.base, bot.root)}
        accounts = [one for one in configured.of_plugin(known[adapter], bot.root) if wanted in ("", one.account)]
        if not accounts:
            raise typer.BadParameter(_absent(adapter, wanted), param_hint="NAME")
        good = [_tested(one, check, probe=probe, timeout=timeout) for one in accounts]
    if not all(good):
        raise typer.Exit(1)


def _absent(adapter: str, account: str) -> str:
    which = f"account {account!r}" if account else "account"
    return f"{adapter} has no {which} in config/{adapter}.toml; `lumia adapters add {adapter}` adds one"


@contextmanager
def _loaded(adapter: str) -> Iterator[tuple[Runtime, Callable[[str], Checked] | None]]:
    """Load an adapter without starting it; yield the bot and its check."""
    from lumia.adapters import configured
    from lumia.adapters.checking import KIND
    from lumia.cli.opened import load_plugin, opened

    with opened() as bot:
        names = [plugin.name for plugin in configured.plugins(bot.base, bot.root)]
        if adapter not in names:
            raise typer.BadParameter(
                f"no adapter is called {adapter!r}; there are {', '.join(names)}", param_hint="NAME"
            )
        loaded = load_plugin(bot, adapter)
        failed = [str(failure) for failure in loaded.failures if failure.name == adapter]
        if failed:
            output.error(failed[0])
            raise typer.Exit(1)
        check = next((one.fn for one in loaded.handlers(KIND) if one.plugin == adapter), None)
        yield bot, check


def _tested(one: Configured, check: Callable[[str], Checked] | None, *, probe: bool, timeout: float) -> bool:
    if not one.enabled:
        output.text(f"{one.name}\tdisabled")
        return True
    if check is not None and not _checked(one, check):
        return False
    if check is None:
        output.note(f"{one.plugin.name} has no check: nobody can be asked whether {one.name} is configured well")
    if not probe:
        return True
    if not one.destination:
        if one.plugin.owned:
            where = f"[{one.plugin.table}.{one.account}] of config/{one.plugin.name}.toml"
            output.note(f"no probe was sent: nobody is named as `owner` in {where}")
        return True
    return _probed(one, timeout)


def _checked(one: Configured, check: Callable[[str], Checked]) -> bool:
    try:
        said = check(one.account)
    except Exception as error:  # whatever a plugin raises, the other accounts are tested, too
        output.error(f"{one.name}: the platform can't be asked: {_shown(str(error) or type(error).__name__)}")
        return False
    if not said.ok:
        output.error(f"{one.name}: {_shown(said.detail) or 'the platform refuses the credentials'}")
        return False
    output.text(f"{one.name}\tok\t{said.identity}" + (f"\t{_shown(said.detail)}" if said.detail else ""))
    return True


def _shown(text: str) -> str:
    from lumia import runtime

    return " ".join(runtime.current().redact(text).split())


def _probed(one: Configured, timeout: float) -> bool:
    from lumia.adapters import probing
    from lumia.errors import LumiaError

    try:
        found = probing.probe(one, timeout)
    except LumiaError as error:
        output.error(f"{one.name}: no probe was sent: {error}")
        return False
    if found.message_id:
        output.text(f"{one.name}\tsent\tmessage {found.message_id} to {found.where}, {found.seconds:.1f} s")
    elif found.state == "sent":
        output.text(f"{one.name}\tsent\tto {found.where}, {found.seconds:.1f} s; the platform gave no id")
    else:
        output.error(
            f"{one.name}: the probe to {found.where} is {found.state}" + (f": {found.why}" if found.why else "")
        )
    return found.state == "sent"
