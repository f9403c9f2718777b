"""Calls the asynchronous Python of docs/clients.md, which is module snippet here."""

import asyncio

from snippet import exact, increment, like, total, vote


async def until(want, path, field):
    while await total(path, field) != want:
        pass


async def story():
    await until(0, "rollups/python-async", "count")
    await asyncio.gather(*(increment("python-async", n) for n in (-2, 1, 1, 1, 1, 5)))
    await until(7, "rollups/python-async", "count")
    assert await exact("counters/python-async/shards", "count") == 7
    for uid, yes in (("ann", True), ("bob", True), ("bob", True), ("ann", False), ("cid", True)):
        await vote("python-async-votes", uid, yes)
        await like("python-async", uid, yes)
    await until(2, "posts/python-async", "likes")


asyncio.run(asyncio.wait_for(story(), 60))
