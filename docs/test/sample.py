"""Writes a counter as Firebase's sample for Python does: all shards in advance, then updates."""

import random

from google.cloud import firestore

NUM_SHARDS = 3
shards = firestore.Client().collection("counters/python-sample/shards")
for i in range(NUM_SHARDS):
    shards.document(str(i)).set({"count": 0})
for _ in range(7):
    shards.document(str(random.randrange(NUM_SHARDS))).update({"count": firestore.Increment(1)})
