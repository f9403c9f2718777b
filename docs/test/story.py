"""Calls the Python of docs/clients.md, which is module snippet here."""

import queue

from snippet import exact, increment, like, vote, watch


def until(want, totals):
    while totals.get(timeout=60) != want:
        pass


def shown(path, field):
    totals = queue.Queue()
    watch(path, field, totals.put)
    until(0, totals)
    return totals


counts = shown("rollups/python", "count")
for n in (-2, 1, 1, 1, 1, 5):  # the last total is the highest on the way
    increment("python", n)
until(7, counts)
assert exact("counters/python/shards", "count") == 7

likes = shown("posts/python", "likes")
for uid, yes in (("ann", True), ("bob", True), ("bob", True), ("ann", False), ("cid", True)):
    vote("python-votes", uid, yes)
    like("python", uid, yes)
until(2, likes)
