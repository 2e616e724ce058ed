"""What a change is made from: only a bot root in step with the running bot may hand its plugins over.

A root is in step when it holds what the active deployment brings, or when that is what it took part in last and what
differs was changed here since: by `pkg` while the bot was stopped, or by the operation that is just being handed over
(docs/hot-reload.md). Compared is the content, not the number: a deployment that was rolled back has a number, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lumia.deployment import Deployments, Standing, Wanted
from lumia.errors import DeploymentRecordError, StaleDeploymentError

if TYPE_CHECKING:
    from lumia.pkg.bringing import Root

SETTLE_SECONDS = 20.0
"""How long it is waited for processes on this machine that are about to bring its root in step."""
LOOK_SECONDS = 0.05
SHOWN = 5
_TOLD = ("tag", "commit", "digest", "url", "origin", "enabled")


def active(root: Root, deployments: Deployments) -> tuple[int, Wanted | None]:
    """Return number and content of the deployment that the bot works with; (0, None) when there is none.

    Raises `DeploymentRecordError` when it is damaged or not signed by this bot.
    """
    while True:
        number = deployments.look().active
        wanted = deployments.wanted(number)
        if wanted is not None:
            return number, root.verified(wanted)
        if deployments.look().active == number:
            return number, None


def same(one: Wanted, other: Wanted) -> bool:
    """Tell whether both have the same plugins, with the same ones disabled."""
    return (one.plugins or {}, set(one.disabled)) == (other.plugins or {}, set(other.disabled))


def base_of(root: Root, deployments: Deployments, operation: str = "") -> int:
    """Return the active deployment, which is what `root` makes its next one from; 0 for none.

    operation: one that is being handed over; what it has handed over before, it may also take back. A record that no
    machine takes is nothing to be in step with. Raises `StaleDeploymentError` naming what differs.
    """
    try:
        number, wanted = active(root, deployments)
    except DeploymentRecordError:
        return deployments.look().active
    if wanted is None or wanted.plugins is None or (operation and wanted.operation == operation):
        return number
    here, noted = root.held(), root.took_part()
    if same(here, wanted) or (noted is not None and same(noted, wanted)):
        return number
    raise StaleDeploymentError(
        f"this bot root is not in step with the bot, whose other machines would go back with it: "
        f"{differences(here, wanted)} (deployment {number}, begun at {wanted.origin or 'another place'}). `pkg sync` "
        "brings this root in step, as a process of the bot does that starts here; then run this again"
    )


def serial_of(root: Root, deployments: Deployments, wanted: Wanted) -> int:
    """Return the serial of what `root` hands over: greater than those of all deployments known, also rolled back ones.

    What was handed over for the same operation before keeps its own, so that it is begun once.
    """
    seen, standing = root.serial, deployments.look()
    for number in (standing.number, standing.active):
        try:
            record = deployments.wanted(number)
            if record is None:
                continue
            serial = root.verified(record).serial
        except DeploymentRecordError:
            continue
        if number == standing.number and record.operation and replace(record, seal="", serial=0) == wanted:
            return serial
        seen = max(seen, serial)
    return seen + 1


def require(root: Root, deployments: Deployments, say: Callable[[str], None] = lambda text: None) -> None:
    """Return when `root` is in step with the bot, and note it; waits for processes here that are about to see to it.

    Raises `StaleDeploymentError` naming what differs, `DeploymentRecordError` for a record no machine takes.
    """
    until, told = time.monotonic() + SETTLE_SECONDS, False
    while True:
        late = time.monotonic() > until
        standing = deployments.look()
        if standing.state != "preparing" or late:
            try:
                return _noted(root, deployments, standing)
            except StaleDeploymentError:
                if late or all(member.place != root.place for member in deployments.members()):
                    raise
        if not told:
            say("waiting until this machine is in step with the bot")
            told = True
        time.sleep(LOOK_SECONDS)


def _noted(root: Root, deployments: Deployments, standing: Standing) -> None:
    """Note that the root is in step: what is changed in it from now on is made from that."""
    number, wanted = active(root, deployments)
    base_of(root, deployments)
    here, noted = root.held(), root.took_part()
    undecided = standing.state == "preparing"
    if wanted is not None and not undecided and same(here, wanted) and (noted is None or not same(noted, wanted)):
        root.note(number)
    if wanted is not None and not undecided:
        root.saw(wanted)


def differences(here: Wanted, there: Wanted) -> str:
    """Return in words what a root and the bot have differently: `dice: 1.0.0 here, 2.0.0 in the bot; …`."""
    ours, theirs = here.plugins or {}, there.plugins or {}
    found = [
        f"{name}: {_about(ours.get(name), theirs.get(name), 'here')}, "
        f"{_about(theirs.get(name), ours.get(name), 'in the bot')}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]
    off_here, off_there = set(here.disabled), set(there.disabled)
    for name in sorted((off_here ^ off_there) - ours.keys() - theirs.keys()):
        where = ("disabled here, enabled in the bot", "enabled here, disabled in the bot")[name in off_there]
        found.append(f"{name}: {where}")
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def _about(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None, where: str) -> str:
    """Return what one side has of a plugin, as exactly as is needed to tell it from the other side's."""
    if one is None:
        return f"not {where}"
    version = str(one.get("version"))
    if other is None or version != other.get("version"):
        return f"{version} {where}"
    for field in _TOLD:
        if one.get(field) != other.get(field):
            value = one.get(field)
            if field == "enabled":
                return f"{'enabled' if value else 'disabled'} {where}"
            shown = str(value)[:12] if field == "commit" else str(value)[:19] if field == "digest" else str(value)
            return f"{version} ({field} {shown}) {where}"
    return f"{version} {where} (its entry in the lock differs)"
