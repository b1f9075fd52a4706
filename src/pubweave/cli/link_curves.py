"""How a link runs in a picture: straight, or bowed where it would pass over a broker.

Links that lie on one line would hide each other; since such a link passes over the broker at the
other's end, keeping clear of brokers keeps them apart too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pubweave.cli.tree_layout import Positions
from pubweave.model.ids import Link

Point = tuple[float, float]
_Floats = npt.NDArray[np.float64]

_BOWS = (0.0, 0.12, -0.12, 0.22, -0.22, 0.34, -0.34, 0.48, -0.48)
"""How far the middle of a link lies off its straight line, in link lengths."""
_SAMPLES = np.linspace(0.06, 0.94, 23)
_BOWED_UP_TO = 250


class LinkCurves:
    """Curves between the brokers of one picture, each the same wherever it is asked for."""

    def __init__(self, positions: Positions, clearance: float) -> None:
        self._positions = positions
        self._places = np.array(list(positions.values()), dtype=np.float64)
        self._index = {broker: row for row, broker in enumerate(positions)}
        self._clearance = clearance
        self._known: dict[Link, Point] = {}

    def control(self, link: Link) -> Point:
        """The control point of the link's quadratic curve; in its middle where it is straight."""
        if link not in self._known:
            self._known[link] = self._control(link)
        return self._known[link]

    def at(self, link: Link, share: float) -> Point:
        """The point at a share of the way from the link's first end to its second."""
        (point,) = self._sampled(link, self.control(link), np.array([share]))
        return float(point[0]), float(point[1])

    def _control(self, link: Link) -> Point:
        bows: Sequence[float] = _BOWS if len(self._places) <= _BOWED_UP_TO else _BOWS[:1]
        best, least = (0.0, 0.0), float("inf")
        others = np.ones(len(self._places), dtype=np.bool_)
        others[[self._index[link.a], self._index[link.b]]] = False
        for bow in bows:
            control = self._bowed(link, bow)
            price = abs(bow) + self._trespass(link, control, self._places[others])
            if price < least - 1e-9:
                best, least = control, price
        return best

    def _bowed(self, link: Link, bow: float) -> Point:
        (x1, y1), (x2, y2) = self._positions[link.a], self._positions[link.b]
        # The curve's middle is half as far out as its control point.
        dx, dy = -(y2 - y1) * 2 * bow, (x2 - x1) * 2 * bow
        return (x1 + x2) / 2 + dx, (y1 + y2) / 2 + dy

    def _trespass(self, link: Link, control: Point, others: _Floats) -> float:
        """How deep the curve runs into the surroundings of brokers that are not its own."""
        if not len(others):
            return 0.0
        points = self._sampled(link, control, _SAMPLES)
        distance = np.linalg.norm(points[:, None] - others[None, :], axis=2).min(axis=0)
        return float(np.clip(1 - distance / self._clearance, 0, None).sum()) * 4

    def _sampled(self, link: Link, control: Point, shares: _Floats) -> _Floats:
        start, end = (np.array(self._positions[broker]) for broker in link)
        s = shares[:, None]
        curve: _Floats = (1 - s) ** 2 * start + 2 * s * (1 - s) * np.array(control) + s**2 * end
        return curve
