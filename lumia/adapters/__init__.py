"""The adapter port: what turns a platform's bytes into messages and back (spec §6, docs/adapters.md).

Inbound: `accept` and `submit` start the pipeline `msg`; a platform gets its 2xx, its acknowledgement or its cursor
moved only after they returned. `account` tells how an account fares.

Outbound: the consumer of `msg.send, dest=…` calls `dispatch`, the consumer of `<adapter>.send` sends inside of
`delivering`, one effect per message of the platform. Receipts and the state of each send are kept.
"""

from __future__ import annotations

from lumia.adapters import receipts
from lumia.adapters.checking import Checked, check
from lumia.adapters.delivery import RETRY, Outgoing, delivering
from lumia.adapters.inbound import accept, submit
from lumia.adapters.listing import AccountInfo, accounts
from lumia.adapters.names import queue
from lumia.adapters.outbound import delete, dispatch, edit
from lumia.adapters.receipts import Receipt
from lumia.adapters.splitting import parts, utf16
from lumia.adapters.states import AccountState, account

__all__ = [
    "RETRY",
    "AccountInfo",
    "AccountState",
    "Checked",
    "Outgoing",
    "Receipt",
    "accept",
    "account",
    "accounts",
    "check",
    "delete",
    "delivering",
    "dispatch",
    "edit",
    "parts",
    "queue",
    "receipts",
    "submit",
    "utf16",
]
