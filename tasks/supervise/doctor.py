"""`lumia doctor`: everything a start needs and every known risk, one line each with its way out."""

from __future__ import annotations

import os
from collections.abc import Iterable

from lumia import paths
from lumia.errors import LumiaError
from tasks.supervise.check_bot import check_bot
from tasks.supervise.check_deployment import check_deployment
from tasks.supervise.check_machine import check_machine
from tasks.supervise.check_servers import check_servers
from tasks.supervise.findings import FAIL, Finding, fail
from tasks.supervise.folders import Folders
from tasks.supervise.journal_report import check_journal
from tasks.supervise.settings import Settings, read_settings
from tasks.supervise.state import running


def examine() -> list[Finding]:
    """Return every finding about this machine and the bot root of this folder; raises nothing."""
    base = paths.base()
    try:
        root = paths.find_root()
    except LumiaError as error:
        what, _, way_out = str(error).partition("; ")
        return [*check_machine(base, None), fail("root", what, way_out)]
    findings = [*check_machine(base, root)]
    try:
        settings = read_settings(root)
    except LumiaError as error:
        findings.append(fail("config", str(error), "correct it"))
        settings = Settings()
    state = running(Folders(root))
    url = os.environ.get("LUMIA_REDIS_URL", "").strip() or (state.redis_url if state is not None else "")
    servers = [*check_servers(root, settings, state), *check_journal(root, url), *check_deployment(root, url)]
    return [*findings, *servers, *check_bot(base, root, settings, state)]


def is_ok(findings: Iterable[Finding]) -> bool:
    """Tell whether nothing hinders a start."""
    return all(finding.level != FAIL for finding in findings)
