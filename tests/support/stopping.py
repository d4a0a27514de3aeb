"""Jobs that are asked to stop at a chosen moment."""

from __future__ import annotations

import signal

from petacomm.base.stop_request import StopRequest


class StopAfter(StopRequest):
    """Request that comes at a look: SIGTERM to one rank, or the end of the wall clock."""

    def __init__(self, looks, by_clock=False, here=True):
        super().__init__({})
        self.looks, self.by_clock, self.here = looks, by_clock, here

    @property
    def seconds_left(self):
        self.looks -= 1
        over = self.looks < 0 and self.here
        if over and not self.by_clock:
            self.signal = int(signal.SIGTERM)
        return 0.0 if over and self.by_clock else 1e9
