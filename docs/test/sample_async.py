"""Writes a counter as Firebase's sample for asynchronous Python does: all shards in advance, then updates."""

import asyncio
import random

from google.cloud import firestore

NUM_SHARDS = 3


async def sample():
    shards = firestore.AsyncClient().collection("counters/python-async-sample/shards")
    for i in range(NUM_SHARDS):
        await shards.document(str(i)).set({"count": 0})
    for _ in range(7):
        await shards.document(str(random.randrange(NUM_SHARDS))).update({"count": firestore.Increment(1)})


asyncio.run(sample())
