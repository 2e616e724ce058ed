"""What somebody writes after `pkg -S`: a name, a git URL or a folder, with or without a tag (spec §13.2)."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import TypeAdapter, ValidationError

from lumia.errors import SourceError, UnsafePackageError
from lumia.manifest import PluginName, hyphenated
from lumia.pkg.model import Request
from lumia.pkg.text import named, odd_character, plain

SCHEMES = ("https", "http", "ssh", "git", "file")
UNENCRYPTED = frozenset({"http", "git"})
LONGEST = 2000
_FORMS = "`NAME`, `NAME@TAG`, a git URL such as https://example.org/me/dice, or a folder such as ./dice"
_NAME: TypeAdapter[str] = TypeAdapter(PluginName)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_TRANSPORT = re.compile(r"([A-Za-z0-9_-]+)::")
_SCP = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^@/:]+):(?P<path>[^/:].*|/[^/].*)", re.DOTALL)
_SECRET = re.compile("://.*@", re.DOTALL)
_HOST = re.compile(r"(?!-)[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_USER = re.compile(r"(?!-)[A-Za-z0-9._+-]{1,64}")
_BAD_REF = re.compile(r"\.\.|[~^:?*\[\\\s]|@\{|//|^[-/.]|/\.|[/.]$|\.lock(?:/|$)|[^\x21-\x7e]")
_TWINS = str.maketrans("015", "ols")
_LOOKS = {  # letters of other scripts that look like one of a-z, Cyrillic first
    **dict(zip("аеорсухіјѕһԁԛԝьгпк", "aeopcyxijshdqwbrnk", strict=True)),
    **dict(zip("αορνικτυχωηγ", "aopviktuxwny", strict=True)),
    **dict(zip("օոսհıɑɡ", "onuhiag", strict=True)),
}


def parse(text: str) -> Request:
    """Return what `NAME[@TAG]`, `GIT-URL[@TAG]`, `./FOLDER`, `../FOLDER`, `/FOLDER` or `~/FOLDER` asks for.

    A URL keeps its credentials, and `text` shows none. A tag may also be a commit of 40 hex digits.

    Raises `UnsafePackageError` for what could be read as an option, a command or another name, `SourceError` for what
    is none of the forms; both say the way out.
    """
    if not text:
        raise SourceError(f"nothing was asked for; name a plugin: {_FORMS}")
    if text.startswith("-"):
        raise UnsafePackageError(f"{plain(text)!r} begins with '-', as an option does; a plugin is {_FORMS}")
    if transport := _TRANSPORT.match(text):
        raise UnsafePackageError(
            f"{transport[1]}:: makes git run a helper program, so it is refused; use a URL with https:// or ssh://"
        )
    _refuse_hidden(text)
    if text in (".", "..", "~") or text.startswith(("./", "../", "/", "~/")):
        return _folder(text)
    if _SCHEME.match(text) or _SCP.fullmatch(text):
        return _url(text)
    return _name(text)


def _refuse_hidden(text: str) -> None:
    if len(text) > LONGEST:
        raise UnsafePackageError(f"what was asked for is {len(text)} characters long; {LONGEST} are enough for any URL")
    odd = odd_character(text) or next((char for char in text if char.isspace()), None)
    if odd is not None and (odd != " " or not text.startswith((".", "/", "~"))):
        shown = plain(_SECRET.sub("://", text), 100)
        if odd == " ":
            raise UnsafePackageError(
                f"{shown!r} holds a space; in a URL write it as %20, and name one plugin at a time"
            )
        raise UnsafePackageError(
            f"{shown!r} holds the character {named(odd)}, which can't be seen; type the name or URL yourself"
        )


def _folder(text: str) -> Request:
    path = Path(text).expanduser()
    before, at, tag = text.rpartition("@")
    if at and not path.exists() and Path(before).expanduser().is_dir():
        return Request("folder", text, url=str(Path(before).expanduser().absolute()), tag=_tag(tag))
    return Request("folder", text, url=str(path.absolute()))


def _url(text: str) -> Request:
    url, tag = _split_tag(text)
    check_url(url)
    shown = public_url(url) + (f"@{tag}" if tag else "")
    return Request("git", shown, url=url, tag=_tag(tag) if tag is not None else None)


def _split_tag(text: str) -> tuple[str, str | None]:
    """Take the tag off: what follows the last `@` of the path, unless that begins a path's part (`host/@me/dice`)."""
    scheme = _SCHEME.match(text)
    start = scheme.end() if scheme else 0
    slash = text.find("/", start) if scheme else text.find(":") + 1
    at = text.rfind("@")
    if slash < 0 or at <= slash or text[at - 1] == "/":
        return text, None
    return text[:at], text[at + 1 :]


def _tag(tag: str) -> str:
    if not tag:
        raise SourceError("nothing follows the '@'; write the version's tag there, as in dice@v1.2.3, or leave '@' out")
    if not is_tag(tag):
        raise UnsafePackageError(f"{plain(tag, 80)!r} can't be a git tag; a version's tag looks like v1.2.3")
    return tag


def is_tag(text: str) -> bool:
    """Tell whether `text` can be a tag's name: by git's rules, visible ASCII, and nothing that reads as an option."""
    return 0 < len(text) <= 200 and not _BAD_REF.search(text)


def _name(text: str) -> Request:
    name, at, tag = text.partition("@")
    if not name.isascii():
        raise UnsafePackageError(_foreign(name))
    if "/" in name:
        shown = plain(name, 100)
        raise SourceError(
            f"{shown!r} is no plugin name; for a folder write './{shown}', for a repository its whole URL, "
            f"'https://{shown}'"
        )
    wanted = hyphenated(name)
    try:
        _NAME.validate_python(wanted)
    except ValidationError:
        better = hyphenated(name.lower().strip("-_. "))
        hint = f"; did you mean {better!r}?" if better != name and _is_name(better) else f"; a plugin is {_FORMS}"
        raise SourceError(f"{plain(name, 100)!r} is no plugin name{hint}") from None
    return Request("registry", text, name=wanted, tag=_tag(tag) if at else None)


def _is_name(text: str) -> bool:
    try:
        _NAME.validate_python(text)
    except ValidationError:
        return False
    return True


def _foreign(name: str) -> str:
    odd = next(char for char in name if not char.isascii())
    like = _LOOKS.get(odd.lower()) or unicodedata.normalize("NFKD", odd)[0]
    looks = f" and looks like {like!r}" if like.isascii() else ""
    meant = hyphenated(_plain_letters(name))
    other = f"; it is not the plugin {meant!r}: type that name if you mean it" if _is_name(meant) else ""
    return f"{plain(name, 80)!r} holds {odd!r}, {named(odd)}, which is none of a-z{looks}; names are ASCII{other}"


def _plain_letters(name: str) -> str:
    letters = (_LOOKS.get(char, char) for char in unicodedata.normalize("NFKD", name.lower()))
    return "".join(char for char in letters if not unicodedata.combining(char))


def check_url(url: str) -> str:
    """Return `url` when git may be asked for it. Raises `UnsafePackageError` or `SourceError` with the reason."""
    _refuse_hidden(url)
    if url.startswith("-") or _TRANSPORT.match(url):
        raise UnsafePackageError(f"{plain(url, 100)!r} is no URL but would be read as an option or a command; refused")
    scheme = _SCHEME.match(url)
    if scheme is None:
        return _check_scp(url)
    if scheme[1].lower() not in SCHEMES:
        raise UnsafePackageError(
            f"{plain(scheme[1], 40)}:// is no way to a plugin; use {', '.join(f'{one}://' for one in SCHEMES)}"
        )
    parts = _parts(url)
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise SourceError(f"{public_url(url)} has a '?' or '#', which git URLs have no use for; remove what follows it")
    if scheme[1].lower() == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise SourceError(f"{plain(url, 200)}: a file URL names an absolute path, as in file:///srv/git/dice")
        return url
    _check_place(parts.hostname or "", parts.path.lstrip("/"), unquote(parts.username or ""), parts.scheme, url)
    return url


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SourceError(
            "that is no URL: a port is a number, and in a password '/', ':' and '@' are written as %2F, %3A and %40; "
            "one looks like https://example.org/me/dice"
        ) from None
    return parts


def _check_scp(url: str) -> str:
    found = _SCP.fullmatch(url)
    if found is None:
        raise SourceError(f"{plain(url, 200)} is no URL; one looks like https://example.org/me/dice")
    _check_place(found["host"], found["path"], found["user"] or "", "ssh", url)
    return url


def _check_place(host: str, path: str, user: str, scheme: str, url: str) -> None:
    shown = plain(public_url(url), 200)
    if not host.isascii():
        odd = next(char for char in host if not char.isascii())
        raise UnsafePackageError(
            f"the host of {shown} holds {odd!r}, {named(odd)}, and may look like another host; write it in ASCII "
            "(xn--…) if it is meant"
        )
    if not _HOST.fullmatch(host):
        raise UnsafePackageError(f"{shown}: {plain(host, 80)!r} is no host name")
    if not path or path.startswith("-"):
        raise UnsafePackageError(f"{shown}: the path {plain(path, 80)!r} is missing, or would be read as an option")
    if not url.isascii():
        raise UnsafePackageError(f"{shown}: write what is not ASCII in a URL as %XX")
    if scheme == "ssh" and user and not _USER.fullmatch(user):
        raise UnsafePackageError(f"{shown}: {plain(user, 80)!r} is no user name for ssh")


def check_registry_url(url: str, registry: str) -> str:
    """Return the repository URL a registry named, when a registry may name it.

    registry: the registry's own URL. Others than https and ssh, and credentials, are refused, for a registry's answer
    must not make this machine read its own files or send secrets; one on this machine may also name `file`, `http` and
    `git`. Raises `UnsafePackageError` or `SourceError`.
    """
    check_url(url)
    scheme = url.partition("://")[0].lower() if _SCHEME.match(url) else "ssh"
    if scheme not in ("https", "ssh") and not _is_local(registry):
        raise UnsafePackageError(
            f"the registry names {plain(public_url(url), 200)}; only https:// and ssh:// are taken from a "
            "registry that is not on this machine. Install it by its URL if you trust it"
        )
    if public_url(url) != url:
        raise UnsafePackageError(f"the registry names {plain(public_url(url), 200)} with a password in it; refused")
    return url


def _is_local(registry: str) -> bool:
    try:
        host = urlsplit(registry).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def public_url(url: str) -> str:
    """Return `url` without passwords and tokens, as it is shown, locked and logged.

    Of http and https all before the `@` goes, for a user name there is often a token; ssh keeps its user name.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return url
    authority, slash, path = url[scheme.end() :].partition("/")
    user, at, host = authority.rpartition("@")
    if not at:
        return url
    keeps = scheme[1].lower() in ("ssh", "git")
    name = user.partition(":")[0]
    return scheme[0] + (f"{name}@" if keeps and name else "") + host + slash + path


def look_alike(name: str, known: set[str] | frozenset[str]) -> str | None:
    """Return the one of `known` that `name` could be mistaken for (`heartf1ow`: `heartflow`), None for none."""
    wanted = _skeleton(name)
    return next((other for other in sorted(known) if other != name and _skeleton(other) == wanted), None)


def _skeleton(name: str) -> str:
    letters = _plain_letters(name).translate(_TWINS)
    return re.sub(r"[-_]", "", letters).replace("rn", "m").replace("vv", "w").replace("cl", "d").replace("i", "l")
