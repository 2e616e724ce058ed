"""How every change goes: plan, show, ask, carry out, tell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lumia.cli import output
from lumia.cli.pkg import showing
from lumia.cli.pkg.opened import Opened, opened
from lumia.cli.pkg.turn import Turn
from lumia.cli.pkg.watching import Watch
from lumia.errors import PkgError

if TYPE_CHECKING:
    from lumia.pkg.joining import Target
    from lumia.pkg.layers import Layer
    from lumia.pkg.lockfile import Lock
    from lumia.pkg.model import Plan
    from lumia.pkg.sources import Sources


@dataclass(frozen=True)
class How:
    """What the flags of a change say. ask: False for changes that are as easily undone.

    strict: what would not load is refused, also when another pkg has made it so meanwhile. replaces: the change says
    by itself what is installed afterwards, so a deployment record that no machine takes doesn't keep it from that.
    """

    dry_run: bool = False
    yes: bool = False
    as_json: bool = False
    no_wait: bool = False
    force: bool = False
    ask: bool = True
    strict: bool = False
    replaces: bool = False


def change(make: Callable[[Sources], Plan], how: How, target: Target | None = None) -> None:
    """Carry out the plan that `make` makes, as `how` says; whatever fails, everything stays as it is.

    target: what the running bot works with already, where the change brings this root in step with it. Any other is
    refused on a root that isn't.
    """
    bot = opened(changes=True, wait=not how.no_wait)
    watch = Watch()
    with Turn(bot, watch, target, wait=not how.no_wait, replaces=how.replaces) as turn:
        if how.dry_run or (how.ask and not how.yes):
            turn.look()
        else:
            turn.take()
        with watch.shown():
            sources = bot.sources(watch)
        try:
            with watch.shown():
                plan = make(sources)
                layer = _packages(bot, plan, watch)
            _carry_out(bot, plan, layer, how, watch, turn)
        finally:
            sources.discard()
    if plan.left:
        raise PkgError(f"not upgraded, see above: {', '.join(plan.left)}")


def _packages(bot: Opened, plan: Plan, watch: Watch) -> Layer | None:
    """Return the Python packages that go with the plan; raises `PlanError` when there are no such."""
    from lumia.pkg import python_deps

    for action in plan.actions:
        manifest = action.staged.manifest if action.staged else None
        if manifest is not None and manifest.isolation and manifest.python_dependencies:
            watch.doing(f"resolving the Python packages of {action.name}")
            python_deps.resolve_isolated(action.name, manifest.python_dependencies, root=bot.root, say=watch.doing)
    if not plan.python:
        return None
    watch.doing("resolving Python packages")
    return python_deps.resolve(plan.python, root=bot.root, say=watch.doing)


def _carry_out(bot: Opened, plan: Plan, layer: Layer | None, how: How, watch: Watch, turn: Turn) -> None:
    for text in plan.warnings:
        bot.warn(text)
    if not plan.actions:
        if how.as_json:
            output.data(showing.as_data(plan))
        output.note(_nothing(bot, how, watch, turn))
        return
    if how.dry_run or how.ask:
        _show(plan, layer, output.text if how.dry_run and not how.as_json else output.note)
    for text in showing.first_keys(plan, bot.root):
        output.note(text)
    if how.dry_run:
        if how.as_json:
            output.data(showing.as_data(plan))
        return
    if how.ask and not how.yes and any(action.kind != "mark" for action in plan.actions):
        _ask()
    turn.take()
    _run(bot, plan, layer, how, watch, turn)


def _nothing(bot: Opened, how: How, watch: Watch, turn: Turn) -> str:
    """Do what is left where the plugins are those already: note that this root is in step, or write the record anew."""
    from lumia.pkg import deploying, joining, lockfile

    if how.dry_run or not (turn.target or turn.refused):
        return "nothing to do"
    turn.take()
    if turn.target:
        return joining.join(bot.root, turn.target).text
    return deploying.deploy(bot.root, lockfile.read(bot.root).plugins, turn=turn.token, on_step=watch.doing).text


def _show(plan: Plan, layer: Layer | None, line: Callable[[str], None]) -> None:
    for text in showing.aligned(showing.HEADERS, showing.table(plan)):
        line(text)
    if layer is not None and not layer.built:
        line("Python packages: " + ", ".join(f"{one.name} {one.version}" for one in layer.packages))


def _ask() -> None:
    if not sys.stdin.isatty():
        raise PkgError("this needs a yes, and there is no terminal to ask on; add --yes, or --dry-run to only look")
    import typer

    if not typer.confirm("Go on?", default=True, err=True):
        raise PkgError("nothing was changed")


def _run(bot: Opened, plan: Plan, layer: Layer | None, how: How, watch: Watch, turn: Turn) -> None:
    from lumia.cli.pkg.handing_over import Deployer
    from lumia.cli.pkg.joining import Joiner
    from lumia.isolation_env import environment
    from lumia.pkg import deploying, operation, python_deps
    from lumia.pkg.ground import applied, python_of

    def check(lock: Lock) -> None:
        if turn.target is None and any(action.kind in ("install", "upgrade", "enable") for action in plan.actions):
            deploying.await_worker(bot.root, watch.doing)  # what is taken out may be what keeps them from running

    def packages(lock: Lock) -> Layer | None:
        needed = python_of(applied(plan, bot.root, strict=how.strict))
        same = needed == dict(plan.python)
        wanted = layer if same else python_deps.resolve(needed, root=bot.root, say=watch.doing)
        began = time.monotonic()
        built = python_deps.build(wanted, say=watch.doing)
        deployer.built = time.monotonic() - began
        for action in plan.actions:
            if action.staged is not None and action.staged.manifest.isolation is not None:
                environment(bot.root, action.staged.manifest, watch.doing)
        return built

    deployer = Deployer(bot.root, watch.doing, turn.token)
    if turn.target is not None:
        deployer = Joiner(bot.root, watch.doing, turn.token, turn.target)
    with watch.shown():
        done = operation.run(
            plan,
            layout=bot.layout,
            on_step=watch.step,
            check=check,
            packages=packages,
            deploy=deployer,
            wait=not how.no_wait,
            force=how.force,
        )
    told = deployer.outcome.text if deployer.outcome else ""
    if how.as_json:
        told_already = replace(plan, warnings=(*plan.warnings, *done.warnings))
        output.data(showing.as_data(told_already, operation=done.id, commit=done.commit, note=told))
    else:
        for action in plan.actions:
            output.text(showing.sentence(action))
    if told:
        output.note(told)
