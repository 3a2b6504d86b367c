"""The policy's decisions bound to real SDK objects, for a harness that also serves other agents.

    from exposure_policy.guards import guard_mcp, guard_mcp_app, guard_a2a, check_a2a_card

`own_signs` finds memory's own tools, by `names` among others, `own_answers` its answers, and `refuse` raises for them:
these need the standard library only. `wrap` is what all guards share, and `asgi` guards applications. `mcp` (with
`registry`) and `a2a` know one SDK each; importing them loads none. What other memories look like is the audit's
business.
"""

from .a2a import check_card as check_a2a_card
from .a2a import guard as guard_a2a
from .mcp import guard as guard_mcp
from .mcp import guard_app as guard_mcp_app

__all__ = ["check_a2a_card", "guard_a2a", "guard_mcp", "guard_mcp_app"]
