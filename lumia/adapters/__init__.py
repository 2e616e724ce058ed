"""The adapter port: what turns a platform's bytes into messages and back (spec §6, docs/adapters.md).

Inbound: `accept` and `submit` start the pipeline `msg`; a platform gets its 2xx, its acknowledgement or its
cursor moved only after they returned. `account` tells how an account fares.

Outbound: the consumer of `msg.send, dest=…` calls `dispatch`, the consumer of `<adapter>.send` sends inside of
`delivering`, one effect per message of the platform. Receipts and the state of each send are kept.

Connections: `following` runs a task per configured account, `owning` gives an account to one gateway at a time and
`keeping_up` connects it whenever that is this one, `serving` executes here what has to go over it.
"""

from __future__ import annotations

from lumia.adapters import receipts
from lumia.adapters.checking import Checked, Fault, check, settings
from lumia.adapters.delivery import RETRY, Outgoing, delivering
from lumia.adapters.holding import hold, until_stored
from lumia.adapters.inbound import accept, submit
from lumia.adapters.keeping import ClosedError, NotAdmittedError, keeping_up
from lumia.adapters.listing import AccountInfo, accounts
from lumia.adapters.names import queue
from lumia.adapters.numbered import Numbered
from lumia.adapters.outbound import delete, dispatch, edit
from lumia.adapters.owning import Owned, owning
from lumia.adapters.per_account import following
from lumia.adapters.receipts import Receipt
from lumia.adapters.refusals import Refusals
from lumia.adapters.rows import Rows
from lumia.adapters.serving import AccountQueue, serving, waiting
from lumia.adapters.splitting import parts, utf16
from lumia.adapters.states import AccountState, account

__all__ = [
    "RETRY",
    "AccountInfo",
    "AccountQueue",
    "AccountState",
    "Checked",
    "ClosedError",
    "Fault",
    "NotAdmittedError",
    "Numbered",
    "Outgoing",
    "Owned",
    "Receipt",
    "Refusals",
    "Rows",
    "accept",
    "account",
    "accounts",
    "check",
    "delete",
    "delivering",
    "dispatch",
    "edit",
    "following",
    "hold",
    "keeping_up",
    "owning",
    "parts",
    "queue",
    "receipts",
    "serving",
    "settings",
    "submit",
    "until_stored",
    "utf16",
    "waiting",
]
