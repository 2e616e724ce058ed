"""Planning: what an operation will do, decided before anything changes (spec §7.2, §13.3; DESIGN §11).

A plan fits together as a whole: dependencies, version ranges, `unique` domains, `min_core_version`. What doesn't raises
`PlanError`, naming both sides and the way out.
"""

from lumia.pkg.ground import Ground, did_you_mean
from lumia.pkg.installing import plan_install
from lumia.pkg.removing import plan_remove, plan_switch
from lumia.pkg.sources import Sources
from lumia.pkg.upgrading import plan_upgrade

__all__ = [
    "Ground",
    "Sources",
    "did_you_mean",
    "plan_install",
    "plan_remove",
    "plan_switch",
    "plan_upgrade",
]
