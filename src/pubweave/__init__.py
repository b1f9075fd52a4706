"""pubweave: a self-optimizing publish/subscribe overlay.

Here are the client library, overlays on this machine, and what is done to them. The packages
``design``, ``planning``, ``pipeline``, ``autopilot``, ``demo``, ``experiments``, ``sim`` and
``plots`` are the library behind the command line; ``examples/`` has small programs.

>>> import pubweave
>>> quotes = pubweave.parse_filter("class = 'STOCK' and volume > 1000")
>>> quotes.matches(pubweave.make_publication("p", 1, "STOCK", {"volume": 2000}, b"", 0.0))
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave._lazy import lazily

if TYPE_CHECKING:
    from pubweave import autopilot as autopilot
    from pubweave import demo as demo
    from pubweave import design as design
    from pubweave import experiments as experiments
    from pubweave import pipeline as pipeline
    from pubweave import planning as planning
    from pubweave import plots as plots
    from pubweave import sim as sim
    from pubweave.model.filters.filter import Filter as Filter
    from pubweave.model.filters.text import parse_filter as parse_filter
    from pubweave.model.publications import Publication as Publication
    from pubweave.model.publications import make_publication as make_publication
    from pubweave.model.topology import Topology as Topology
    from pubweave.runtime.client.client import Client as Client
    from pubweave.runtime.client.client import ClientError as ClientError
    from pubweave.runtime.client.connect import connect as connect
    from pubweave.runtime.client.subscription import Subscription as Subscription
    from pubweave.runtime.coordination.deployment_run import apply_plan as apply_plan
    from pubweave.runtime.net.addresses import Address as Address
    from pubweave.runtime.net.tls import TlsFiles as TlsFiles
    from pubweave.runtime.observe.dashboard_server import serving_dashboard as serving_dashboard
    from pubweave.runtime.observe.live_relocation import LiveRelocation as LiveRelocation
    from pubweave.runtime.overlay.events import StoreChoice as StoreChoice
    from pubweave.runtime.overlay.overlay import Overlay as Overlay
    from pubweave.runtime.overlay.run_directory import RunDirectory as RunDirectory
    from pubweave.runtime.overlay.spec import make_spec as make_spec
    from pubweave.runtime.security.credentials import Credentials as Credentials
    from pubweave.runtime.store.zookeeper_target import Coordination as Coordination
    from pubweave.sim.simulate import simulate as simulate

_PACKAGES = ("autopilot", "demo", "design", "experiments", "pipeline", "planning", "plots", "sim")
__getattr__, __all__ = lazily(
    __name__,
    {
        **dict.fromkeys((f"pubweave.{name}" for name in _PACKAGES), "."),
        "pubweave.model.filters.filter": "Filter",
        "pubweave.model.filters.text": "parse_filter",
        "pubweave.model.publications": "Publication make_publication",
        "pubweave.model.topology": "Topology",
        "pubweave.runtime.client.client": "Client ClientError",
        "pubweave.runtime.client.connect": "connect",
        "pubweave.runtime.client.subscription": "Subscription",
        "pubweave.runtime.coordination.deployment_run": "apply_plan",
        "pubweave.runtime.net.addresses": "Address",
        "pubweave.runtime.net.tls": "TlsFiles",
        "pubweave.runtime.observe.dashboard_server": "serving_dashboard",
        "pubweave.runtime.observe.live_relocation": "LiveRelocation",
        "pubweave.runtime.overlay.events": "StoreChoice",
        "pubweave.runtime.overlay.overlay": "Overlay",
        "pubweave.runtime.overlay.run_directory": "RunDirectory",
        "pubweave.runtime.overlay.spec": "make_spec",
        "pubweave.runtime.security.credentials": "Credentials",
        "pubweave.runtime.store.zookeeper_target": "Coordination",
        "pubweave.sim.simulate": "simulate",
    },
)
