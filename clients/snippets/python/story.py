"""Calls the Python of docs/clients.md, which is module snippet here."""

import queue

from snippet import increment, vote, watch

totals = queue.Queue()
live = watch("rollups/python", "count", totals.put)
assert totals.get(timeout=60) == 0
for n in (-2, 1, 1, 1, 1, 5):  # the last total is the highest on the way
    increment("python", n)
while totals.get(timeout=60) != 7:
    pass
live.unsubscribe()

for uid, up in (("ann", True), ("bob", True), ("bob", True), ("ann", False)):
    vote("python-votes", uid, up)
