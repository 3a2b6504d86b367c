"""The policy's decisions bound to real SDK objects, for a harness that also serves other agents.

    from exposure_policy.guards import guard_mcp, guard_mcp_app, guard_a2a, check_a2a_card

`own` decides what is memory's own, and `verdict` what comes of it: both need the standard library only. `wrap` is what
all guards share, and `asgi` guards applications. `mcp` (with `registry`) and `a2a` know one SDK each; importing them
loads none. `likeness`, `names` and `prose` say what other memories look like; the audit asks them.
"""

from .a2a import check_card as check_a2a_card
from .a2a import guard as guard_a2a
from .mcp import guard as guard_mcp
from .mcp import guard_app as guard_mcp_app

__all__ = ["check_a2a_card", "guard_a2a", "guard_mcp", "guard_mcp_app"]
