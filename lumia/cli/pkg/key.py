"""`pkg key`: an author's signing keys, and whose keys this bot trusts (docs/signing.md)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lumia.cli import output
from lumia.cli.groups import group

if TYPE_CHECKING:
    from lumia.pkg.keys import Key, KeyRing
    from lumia.pkg.trust import TrustStore

EPILOG = """\b
Example:
  pkg key new me
  pkg key export me
  pkg key list
  pkg key pin weather 3f0c…"""
PASSPHRASE = "LUMIA_KEY_PASSPHRASE"
key_app = group("Make, show and exchange signing keys; trust or pin those of others.", EPILOG)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The key: its name, or the beginning of its fingerprint.")]
_Plugin = Annotated[str, typer.Argument(metavar="PLUGIN", help="The plugin's name.")]
_Whose = Annotated[
    str, typer.Argument(metavar="KEY", help="A fingerprint, a public key (ed25519:…), a .pub file, or a key of yours.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@key_app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the key, e.g. me.")],
    no_passphrase: Annotated[bool, typer.Option("--no-passphrase", help="Protect it by file rights alone.")] = False,
    as_json: _Json = False,
) -> None:
    """Make a key pair to sign plugins with.

    On a terminal it asks for a passphrase; elsewhere it takes LUMIA_KEY_PASSPHRASE, or none.

    \b
    Example:
      pkg key new me
      pkg key new ci --no-passphrase
    """
    key = _ring().new(name, "" if no_passphrase else _passphrase("Passphrase (empty for none)", confirm=True))
    _show(key, as_json)
    output.note(f"The private key is {key.file}. Keep a copy of it in a safe place: nobody can make it again.")


@key_app.command("list")
def list_keys(as_json: _Json = False) -> None:
    """List your keys, and the keys this bot trusts, plugin by plugin.

    \b
    Example:
      pkg key list
      pkg key list --json | jq '.trusted[] | select(.how == "first use")'
    """
    keys = _ring().list()
    trusted = _trusted()
    if as_json:
        output.data({"keys": [_row(key) for key in keys], "trusted": trusted})
        return
    rows = [(key.name, key.fingerprint, "yes" if key.encrypted else "no") for key in keys]
    if rows:
        output.table(("KEY", "FINGERPRINT", "PASSPHRASE"), rows)
    if rows and trusted:
        output.text("")
    if trusted:
        columns = ("plugin", "fingerprint", "how", "since")
        output.table([column.upper() for column in columns], [[row[column] for column in columns] for row in trusted])
    if not rows and not trusted:
        output.note("there is no key of yours, and none of others is trusted yet; `pkg key new NAME` makes one")


@key_app.command()
def show(name: _Name, as_json: _Json = False) -> None:
    """Show a key of yours: fingerprint, public key, file.

    \b
    Example:
      pkg key show me
    """
    _show(_ring().get(name), as_json)


@key_app.command()
def export(
    name: _Name,
    private: Annotated[bool, typer.Option("--private", help="The private key, under the passphrase it has.")] = False,
) -> None:
    """Print the public key, for others to trust; with --private the private one, for a backup.

    \b
    Example:
      pkg key export me
      pkg key export me --private > me.key
    """
    ring = _ring()
    output.text(ring.export_private(name).rstrip() if private else ring.get(name).public)


@key_app.command("import")
def import_key(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A private key in PEM; - reads it from stdin.")],
    name: Annotated[str, typer.Option("--name", help="What to call it here; default the file's name.")] = "",
    as_json: _Json = False,
) -> None:
    """Take in a private key of yours from another machine: PKCS 8 or OpenSSH, Ed25519.

    \b
    Example:
      pkg key import me.key
      pkg key import ~/.ssh/id_ed25519 --name me
    """
    from lumia.errors import SignatureError

    try:
        text = sys.stdin.read() if file == "-" else Path(file).expanduser().read_text("ascii", "replace")
    except OSError as error:
        raise SignatureError(f"{file} can't be read: {error.strerror}") from error
    needs = "ENCRYPTED" in text[:200] or "OPENSSH" in text[:60]
    secret = _passphrase("Passphrase of the key (empty for none)") if needs else ""
    _show(_ring().add(name or ("imported" if file == "-" else Path(file).stem), text, secret), as_json)


@key_app.command()
def trust(plugin: _Plugin, key: _Whose) -> None:
    """Trust one more key for a plugin, as when its author has a new one.

    \b
    Example:
      pkg key trust weather ed25519:R5zl…
    """
    fingerprint = _fingerprint(key)
    _store().trust(_plugin_name(plugin), fingerprint)
    output.note(f"{plugin} may be signed by {fingerprint} now")


@key_app.command()
def pin(plugin: _Plugin, key: _Whose) -> None:
    """Accept a plugin signed by this key alone: no other, no unsigned one, not even the first time.

    \b
    Example:
      pkg key pin weather weather-author.pub
    """
    fingerprint = _fingerprint(key)
    _store().pin(_plugin_name(plugin), fingerprint)
    output.note(f"{plugin} must be signed by {fingerprint} from now on")


@key_app.command()
def untrust(
    plugin: _Plugin,
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="Only this key; default all of the plugin's.")] = "",
) -> None:
    """Forget whose signature a plugin must carry: the next one that is installed counts as the first.

    \b
    Example:
      pkg key untrust weather
    """
    gone = _store().untrust(_plugin_name(plugin), _fingerprint(key) if key else None)
    if not gone:
        output.error(f"no such key is trusted for {plugin}; `pkg key list` shows those that are")
        raise typer.Exit(1)
    output.note(f"{gone} key{'s' if gone > 1 else ''} of {plugin} forgotten")


def _ring() -> KeyRing:
    from lumia.pkg.keys import KeyRing, default_folder

    return KeyRing(default_folder())


def _store() -> TrustStore:
    from lumia.paths import find_root
    from lumia.pkg.trust import TrustStore

    return TrustStore(find_root())


def _trusted() -> list[dict[str, str]]:
    from lumia.errors import RootNotFoundError

    try:
        plugins = _store().plugins()
    except RootNotFoundError:
        return []
    return [
        {"plugin": name, "fingerprint": key, "how": how, "since": known.since[key]}
        for name, known in plugins.items()
        for key, how in known.keys.items()
    ]


def _plugin_name(text: str) -> str:
    from lumia.pkg.requests import parse

    name = parse(text).name
    if name is None:
        raise typer.BadParameter(f"{text} is no plugin name")
    return name


def _fingerprint(text: str) -> str:
    from lumia.pkg.keys import fingerprint_of

    return fingerprint_of(text, _ring())


def _passphrase(question: str, *, confirm: bool = False) -> str:
    given = os.environ.get(PASSPHRASE)
    if given is not None or not sys.stdin.isatty():
        return given or ""
    asked: str = typer.prompt(
        question, default="", show_default=False, hide_input=True, confirmation_prompt=confirm, err=True
    )
    return asked


def _row(key: Key) -> dict[str, object]:
    return {
        "name": key.name,
        "fingerprint": key.fingerprint,
        "public": key.public,
        "file": str(key.file),
        "encrypted": key.encrypted,
    }


def _show(key: Key, as_json: bool) -> None:
    if as_json:
        output.data(_row(key))
        return
    for label, value in _row(key).items():
        output.text(f"{label:12} {('yes' if value else 'no') if isinstance(value, bool) else value}")
