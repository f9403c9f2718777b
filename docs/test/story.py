"""Runs the Python of docs/clients.md, which is snippet.py here."""

import os
import queue
import random

from google.cloud import firestore

with open(os.path.join(os.environ["PYTHONPATH"], "snippet.py"), encoding="utf-8") as file:
    snippet = compile(file.read(), "snippet.py", "exec")

totals = queue.Queue()
db = firestore.Client()
for uid in ("ann", "bob", "cid"):
    exec(snippet, {"db": db, "firestore": firestore, "random": random, "uid": uid, "show": totals.put})
while totals.get(timeout=60) != 3:
    pass
[[total]] = db.collection("counters/python/shards").sum("count").get()
assert total.value == 3
