"""Calls the asynchronous Python of docs/clients.md, which is module snippet here."""

import asyncio

from snippet import increment, total, vote


async def story():
    assert await total("rollups/python-async", "count") == 0
    await asyncio.gather(*(increment("python-async", n) for n in (-2, 1, 1, 1, 1, 5)))
    while await total("rollups/python-async", "count") != 7:
        pass
    for uid, up in (("ann", True), ("bob", True), ("bob", True), ("ann", False)):
        await vote("python-async-votes", uid, up)


asyncio.run(asyncio.wait_for(story(), 60))
