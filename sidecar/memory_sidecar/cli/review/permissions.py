"""Print the least permissions that the broker must give a user for this configuration, ready to paste.

By default as the permissions of a user in a NATS server's configuration; with --jwt as the claims of a user's JWT. It
follows the bucket, the prefix, read_only, and the context's JetStream domain, API prefix and inbox prefix. The broker
is not asked. With a JetStream domain the subjects depend on the server that the agent connects to: give
--inside-domain if that server is itself of the domain, and leave it out for a leaf node of another one.

Exit statuses: 0 done; 1 this memory is not at a broker; 64 wrong usage; 78 the configuration cannot be used.
"""

import argparse
import sys

from ...assemble import settle
from ...backend.choose import backend_of
from ...exits import EX_CONFIG
from ...options import OptionsError, decode_options
from ..shared.failure import Failure
from ..shared.places import PLACES, add_options, places
from ..shared.report import add_json, print_json

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, {name: PLACES[name] for name in ("config", "identity")})
    parser.add_argument(
        "--inside-domain",
        action="store_true",
        help="the agent connects to a server of the context's JetStream domain itself",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--jwt", action="store_true", help="as the claims of a user's JWT")
    add_json(form)


def run(arguments: argparse.Namespace) -> int:
    config, identity = settle(places({"config": arguments.config, "identity": arguments.identity}))
    if backend_of(config) != "jetstream":
        raise Failure(
            "this memory is in files and needs no permissions of a broker", "give the --config of one in a bucket"
        )
    from ...backend.jetstream import context as nats_context
    from ...backend.jetstream.options import JetStreamOptions, resolve_prefix
    from ...backend.jetstream.permissions import permissions

    try:
        options = decode_options(JetStreamOptions, config.memory.options, "harness.memory.options")
    except OptionsError as error:
        raise Failure(error.problem, error.remedy, status=EX_CONFIG) from error
    if options.prefix is None and identity is None:
        raise Failure("no identity is named, and it is the prefix", "set --identity or harness.memory.options.prefix")
    context = nats_context.load(config.nats_context)
    found = permissions(
        options,
        resolve_prefix(options, identity or ""),
        context,
        read_only=config.memory.read_only,
        inside=arguments.inside_domain,
    )
    if arguments.json:
        shown = {"publish": list(found.publish), "subscribe": list(found.subscribe)}
        print_json({**shown, "server": found.server(), "claims": found.claims()})
    elif arguments.jwt:
        print_json(found.claims())
    else:
        if not context.inbox_prefix:
            print("# Users of one account that share _INBOX.> can read each other's replies: set inbox_prefix in the")
            print("# NATS context to one of this user's own, or give each trust boundary an account.")
        print(
            "# A request may name any subject of its account as the place for its reply, and the broker writes there:"
        )
        print("# agents that must not change each other's notes need an account each.")
        sys.stdout.write(found.server())
    return 0
