"""Calls to places that somebody else's URL names: only where such a call may go (DESIGN §9).

A name is resolved once, all its addresses are judged, and the connection is made to a judged address: a name that
answers differently the second time (DNS rebinding) changes nothing. The environment's proxies are ignored, redirects
are followed only when asked for and judged anew, and a deadline holds for all of it.
"""

from lumia.outside.asking import PASSING, Answer, ask
from lumia.outside.places import Places, Target, check, is_public, resolve

__all__ = ["PASSING", "Answer", "Places", "Target", "ask", "check", "is_public", "resolve"]
