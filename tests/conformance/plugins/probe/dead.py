"""Steps that end as dead letters until they are mended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lumia

from .common import QUICK, count_call, note


def mended(content: lumia.Box[Any]) -> None:
    """Fail until the file is there that the content names."""
    if not os.path.exists(content.into()["mended"]):
        raise RuntimeError("not mended")


@lumia.pipe.on("mendable", priv=3)
def mend_before(content: lumia.Box[Any]) -> None:
    note(content, "before")
    lumia.utils.next(lumia.Box.any({**content.into(), "changed": True}))


@lumia.pipe.on("mendable", priv=2, retry=QUICK)
def mend_fails(content: lumia.Box[Any]) -> None:
    paid = lumia.effect("pay", count_call, content.into()["mended"] + ".paid")
    mended(content)
    note(content, "mended", content.into()["changed"], "paid", paid)
    lumia.utils.next()


@lumia.pipe.on("mendable", priv=1)
def mend_after(content: lumia.Box[Any]) -> None:
    note(content, "after", lumia.effect("pay", count_call, content.into()["mended"] + ".paid again"))


@lumia.event.interceptor("mend.guarded", retry=1)
def mend_guard(content: lumia.Box[Any]) -> None:
    mended(content)
    note(content, "guard")


@lumia.event.consumer("mend.guarded")
def mend_guarded(content: lumia.Box[Any]) -> None:
    note(content, "consumer")


@lumia.event.consumer("mend.news", priv=2, retry=QUICK)
def mend_reader(content: lumia.Box[Any]) -> None:
    mended(content)
    note(content, "read")


@lumia.event.consumer("mend.news", priv=1)
def mend_other(content: lumia.Box[Any]) -> None:
    note(content, "other")


@lumia.pipe.on("mend.arc", retry=1)
def mend_arc(content: lumia.Box[Any]) -> None:
    raise RuntimeError("no way")


@lumia.pipe.on("mend.opens")
def mend_opens(content: lumia.Box[Any]) -> None:
    file = Path(content.into()["mended"] + ".arc").open("w")  # noqa: SIM115 (the Box closes it)
    lumia.pipe.start("mend.arc", lumia.Box.any({"file": file}))
