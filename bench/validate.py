"""How long `pkg dev validate` takes beside ruff and mypy: `python -m bench.validate [LINES]`.

A plugin of about 10,000 lines is written: modules with a dataclass, helpers, a pipeline of two stages, an event chain
and its consumers. Each program is started as a process of its own, three times, and the quickest counts; mypy without
its cache. The goal is 10,000 lines in under 3 s of processor time, ruff included. Then the validator's own layers over
what this repository ships.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from lumia.paths import base

GOAL = 3.0
MODULE = '''"""Part {n} of the shop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import lumia


@dataclass
class Order{n}:
    """What somebody wants."""

    item: str
    amount: int = 1
    notes: list[str] = field(default_factory=list)

    def total(self, price: float) -> float:
        return self.amount * price


def parse_{n}(text: str) -> Order{n} | None:
    words = text.split()
    if len(words) < 2 or not words[1].isdigit():
        return None
    return Order{n}(words[0], int(words[1]))


def publish_{n}(order: Order{n}, **meta: Any) -> None:
    lumia.event.start("shop.order.{n}", lumia.Box.any(order, meta=meta))


@lumia.pipe.on("shop.{n}", priv=20)
def read_{n}(content: lumia.Box[dict[str, Any]]) -> None:
    message = content.into()
    order = parse_{n}(message["text"])
    if order is None:
        lumia.utils.stop("no order")
        return
    for word in message["text"].split()[2:]:
        order.notes.append(word)
    lumia.utils.next(lumia.Box.any(order))


@lumia.pipe.on("shop.{n}", priv=10)
def take_{n}(content: lumia.Box[Order{n}]) -> None:
    order = content.into()
    if order.amount > 3:
        publish_{n}(order, account="a")


@lumia.event.chain("shop.order.{n}")
def price_{n}(content: lumia.Box[Order{n}]) -> lumia.Box[dict[str, Any]]:
    order = content.into()
    return lumia.Box.any({{"item": order.item, "total": order.total(2.5), "notes": order.notes}})


@lumia.event.consumer("shop.order.{n}")
def bill_{n}(content: lumia.Box[dict[str, Any]]) -> None:
    bill = content.into()
    try:
        lumia.store.set(bill["item"], round(bill["total"], 2))
    finally:
        lumia.annotate(notes=len(bill["notes"]))


@lumia.pipe.on("msg", priv={n})
def start_{n}(content: lumia.Box[dict[str, Any]]) -> None:
    lumia.pipe.start("shop.{n}", lumia.Box.any({{"text": content.into()["text"]}}))
    lumia.utils.next()
'''


def main(lines: int) -> int:
    """Print the figures; returns 1 when the goal is missed."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "shop"
        written = _write(folder, lines)
        print(f"a plugin of {written} lines in {len(list(folder.glob('*.py')))} files, processor seconds:")
        python, tools = sys.executable, Path(sys.executable).parent
        validator = [python, "-c", _VALIDATE, str(folder)]
        ruff = "--quiet --no-cache shop"
        rows = {
            "pkg dev validate": validator,
            "  without ruff": [*validator, "--no-ruff"],
            "ruff check + format": ["sh", "-c", f"{tools}/ruff check {ruff}; {tools}/ruff format --diff {ruff}"],
            "mypy": ["env", f"MYPYPATH={base()}", f"{tools}/mypy", "--cache-dir=/dev/null", *_MYPY, "shop"],
        }  # fmt: skip
        taken = {name: _seconds(command, Path(made)) for name, command in rows.items()}
    for name, seconds in taken.items():
        print(f"  {name:22} {seconds:6.2f} s   {seconds / taken['pkg dev validate']:5.2f}×")
    print("what this repository ships, without ruff:")
    for place in ("handlers", "adapters"):
        for each in sorted(path.parent for path in (base() / place).glob("*/manifest.json")):
            count = sum(len(file.read_text("utf-8").splitlines()) for file in each.rglob("*.py"))
            seconds = _seconds([python, "-c", _VALIDATE, str(each), "--no-ruff"], each)
            print(f"  {each.name:22} {seconds:6.2f} s   {count} lines")
    met = taken["pkg dev validate"] < GOAL * written / 10_000
    print(f"goal: {GOAL} s for 10,000 lines: {'met' if met else 'MISSED'}")
    return 0 if met else 1


_MYPY = ("--explicit-package-bases", "--follow-imports=silent")
_VALIDATE = """
import sys
from pathlib import Path
from lumia.pkg.validate import validate
found = validate(Path(sys.argv[1]), lint="--no-ruff" not in sys.argv)
sys.exit(bool([one for one in found if one.rule.startswith(("LUM1", "LUM2", "LUM3"))]))
"""


def _write(folder: Path, lines: int) -> int:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"name": "shop"}))
    count = max(1, lines // len(MODULE.splitlines()))
    for number in range(count):
        (folder / f"part_{number}.py").write_text(MODULE.format(n=number))
    imports = (f"from . import part_{number} as part_{number}\n" for number in range(count))
    (folder / "plugin.py").write_text("".join(imports))
    return sum(len(path.read_text().splitlines()) for path in folder.glob("*.py"))


def _seconds(command: list[str], folder: Path, times: int = 3) -> float:
    """Return the processor seconds of the quickest run, children included; raises when a run fails."""
    taken = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if "-c" in command and command[0] == sys.executable and done.returncode:
            raise SystemExit(f"{command[3:]}: {done.stdout}{done.stderr}")
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
