"""`lumia adapters add`: an account is configured by answering what its adapter's settings ask for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumia.cli import output
from lumia.errors import LumiaError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lumia.adapters import Fault
    from lumia.adapters.configured import Plugin
    from lumia.config_field import Field
    from lumia.runtime import Runtime

    Wrong = Callable[[Mapping[str, Any]], list[Fault]]
    """Returns what the adapter finds wrong with the settings of the account."""

ACCOUNT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_ASKED = ("api_url",)
_YES, _NO = ("true", "yes", "y", "1", "on"), ("false", "no", "n", "0", "off")


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The adapter, e.g. telegram.")],
    account: Annotated[str, typer.Option("--account", help="What to call the account here.")] = "",
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the account; then nothing is asked."),
    ] = None,
) -> None:
    """Add an account to config/NAME.toml; on a terminal it asks for what the adapter needs.

    Secrets are kept in a file that only you can read; or name an environment variable by KEY_env and leave them out.
    The adapter judges every answer; nothing is written as long as one can't work.

    \b
    Example:
      lumia adapters add telegram
      lumia adapters add telegram --account main --set token_env=TELEGRAM_TOKEN --set owner=12345678
    """
    from lumia.cli.opened import opened

    with opened() as bot:
        plugin = _plugin(bot, name)
        fields = _fields(plugin)
        asks = sys.stdin.isatty() and not given
        if not asks and not given:
            first = next(iter(_needed(fields)), "KEY")
            raise typer.BadParameter(
                f"there is no terminal to ask on; give the settings, such as --set {first}=…", param_hint="--set"
            )
        called = account or ("main" if not asks else _asked_name(plugin, bot.root))
        _check_name(plugin, called, bot.root)
        wrong = _judged(bot, plugin, called)
        values = _asked(fields, wrong) if asks else _set(fields, given or [], wrong)
        file = _write(bot, plugin, called, values)
    _tell(plugin, called, file, values, fields)


def _plugin(bot: Runtime, name: str) -> Plugin:
    from lumia.adapters.configured import plugins

    disabled = tuple(bot.config.core.plugins.disabled) if bot.config is not None else ()
    known = {plugin.name: plugin for plugin in plugins(bot.base, bot.root, disabled)}
    found = known.get(name.replace("_", "-"))
    several = ", ".join(one for one, plugin in known.items() if plugin.table)
    if found is None:
        raise typer.BadParameter(f"no adapter is called {name!r}; there are {several}", param_hint="NAME")
    if not found.table:
        raise typer.BadParameter(f"{name} has one account, which is there already; those with more: {several}",
                                 param_hint="NAME")  # fmt: skip
    return found


def _fields(plugin: Plugin) -> Mapping[str, Field]:
    """Return the settings of an account."""
    from lumia.config_schema import load_schema

    return dict(load_schema(plugin.schema).leaves())[(plugin.table,)].fields or {}


def _judged(bot: Runtime, plugin: Plugin, account: str) -> Wrong:
    """Load the adapter, and return its own judgement of an account's settings.

    What a variable holds that is not set here is not judged: the bot may run where it is.
    """
    from lumia.adapters.checking import SETTINGS
    from lumia.cli.opened import look_at_plugin

    loaded = look_at_plugin(bot, plugin.name)
    for failure in loaded.failures:
        if failure.name == plugin.name:
            output.warn(f"the settings are not checked, as the adapter could not be loaded: {failure}")
    judge = next((one.fn for one in loaded.handlers(SETTINGS) if one.plugin == plugin.name), None)

    def wrong(values: Mapping[str, Any]) -> list[Fault]:
        if judge is None:
            return []
        later = {name for key in _unset(values) for name in (key, f"{key}_env")}
        try:
            return [fault for fault in judge(account, values) if fault.key not in later]
        except Exception as error:
            raise LumiaError(f"{plugin.name} can't judge its settings: {type(error).__name__}: {error}") from error

    return wrong


def _unset(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that come from environment variables which are not set here, with those."""
    named = {key.removesuffix("_env"): str(value) for key, value in values.items() if key.endswith("_env") and value}
    return {key: variable for key, variable in named.items() if variable not in os.environ}


def _asked_name(plugin: Plugin, root: Path) -> str:
    """Ask for the account's name until the answer can be one."""
    while True:
        name: str = typer.prompt("What to call the account here", default="main", err=True)
        try:
            _check_name(plugin, name, root)
        except typer.BadParameter as error:
            output.error(error.message)
            continue
        return name


def _check_name(plugin: Plugin, account: str, root: Path) -> None:
    from lumia.adapters.configured import of_plugin

    if not ACCOUNT.fullmatch(account):
        raise typer.BadParameter(
            f"{account!r} is no name; take 1 to 64 of A-Z a-z 0-9 _ . -, it stands in addresses", param_hint="--account"
        )
    if any(one.account == account for one in of_plugin(plugin, root)):
        raise typer.BadParameter(
            f"{plugin.name} has an account {account!r} already; edit [{plugin.table}.{account}] in "
            f"config/{plugin.name}.toml, or take another name",
            param_hint="--account",
        )


def _needed(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return the settings without a value of their own."""
    return {key: field for key, field in fields.items()
            if field.initial in ("", []) and not key.endswith("_env") and key not in _NOT_ASKED}  # fmt: skip


def _asked(fields: Mapping[str, Field], wrong: Wrong) -> dict[str, Any]:
    """Ask for every setting without a value of its own; an empty answer leaves one out, if the adapter can do so."""
    output.note("Press Enter to leave something out.")
    values: dict[str, Any] = {}
    for key in _needed(fields):
        _ask(key, fields, values, wrong)
    while faults := wrong(values):
        key = faults[0].key
        if key not in fields:
            raise _refused(faults)
        output.error(_shown(faults[0]))
        _ask(key, fields, values, wrong)
        if key not in values and f"{key}_env" in fields:
            _ask(f"{key}_env", fields, values, wrong)
    return values


def _ask(key: str, fields: Mapping[str, Field], values: dict[str, Any], wrong: Wrong) -> None:
    """Ask for a setting until the answer is empty, or one that can work."""
    field = fields[key]
    if field.description:
        output.note(f"\n{' '.join(field.description.split())}", style="dim")
    if f"{key}_env" in fields:
        output.note(f"(or leave it out and name an environment variable as {key}_env)", style="dim")
    values.pop(key, None)
    while answer := typer.prompt(key, default="", show_default=False, hide_input=field.hides(key), err=True):
        try:
            values[key] = _value(key, field, answer)
        except typer.BadParameter as error:
            output.error(error.message)
            continue
        fault = next((one for one in wrong(values) if one.key == key), None)
        if fault is None:
            return
        output.error(_shown(fault))
        del values[key]


def _shown(fault: Fault) -> str:
    return f"{fault.what}; {fault.fix}"


def _refused(faults: list[Fault]) -> typer.BadParameter:
    return typer.BadParameter(
        f"nothing was written; account {faults[0].account}: {', and '.join(map(_shown, faults))}", param_hint="--set"
    )


def _set(fields: Mapping[str, Field], given: list[str], wrong: Wrong) -> dict[str, Any]:
    values = {}
    for one in given:
        key, equals, text = one.partition("=")
        if not equals or key not in fields:
            raise typer.BadParameter(
                f"{one.partition('=')[0]!r} is no KEY=VALUE of an account; keys are {', '.join(fields)}",
                param_hint="--set",
            )
        values[key] = _value(key, fields[key], text)
    if faults := wrong(values):
        raise _refused(faults)
    return values


def _value(key: str, field: Field, text: str) -> Any:
    """Return a setting's value as its type; raises `typer.BadParameter` for one that the schema doesn't allow."""
    from lumia.config_field import Findings, fit

    items = [part.strip() for part in text.split(",") if part.strip()] if field.is_list else [text.strip()]
    try:
        parsed = [_scalar(field.item, item) for item in items]
    except ValueError:
        raise typer.BadParameter(f"{key} is {field.allowed}", param_hint="--set") from None
    findings = Findings()
    value = fit(field, parsed if field.is_list else parsed[0], (key,), findings)
    if findings.faults:
        raise typer.BadParameter(f"{key} is {field.allowed}", param_hint="--set")
    return value


def _scalar(kind: str, text: str) -> Any:
    if kind == "bool":
        if text.lower() not in (*_YES, *_NO):
            raise ValueError(text)
        return text.lower() in _YES
    return {"int": int, "float": float}.get(kind, str)(text)


def _write(bot: Runtime, plugin: Plugin, account: str, values: dict[str, Any]) -> Path:
    from lumia.adapters.configured import file_of

    assert bot.config is not None
    bot.config.register(plugin.name, plugin.schema)
    bot.config.set_path((plugin.table, account), values, plugin.name)
    file = file_of(plugin.name, bot.root)
    if bot.config.schema(plugin.name).private:
        file.chmod(0o600)
    return file


def _tell(plugin: Plugin, account: str, file: Path, values: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    output.text(f"{file}\t[{plugin.table}.{account}]")
    secrets = [key for key in fields if f"{key}_env" in fields]
    for key, variable in _unset(values).items():
        output.note(f"{variable} is not set here: the bot needs it where it runs, to read {key} from it.")
    if secrets and not any(values.get(key) or values.get(f"{key}_env") for key in secrets):
        output.note(f"It has no {' or '.join(secrets)} yet; add what the platform gave you to the file.")
    if "owner" in fields and not values.get("owner"):
        output.note("Name an `owner` there, and `lumia adapters test` can send a message to see that it arrives.")
    output.note(f"Next: `lumia up`, then `lumia adapters test {plugin.name}/{account}`.")
    output.note("A bot that runs already takes it up at the latest when it is restarted; `lumia adapters` shows it.")
