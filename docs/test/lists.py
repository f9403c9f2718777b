"""Lists roll-ups, and prints what comes of each try."""

import queue

from google.api_core.exceptions import PermissionDenied
from google.cloud import firestore

db = firestore.Client()


def listen(query):
    shown = queue.Queue()
    watch = query.on_snapshot(lambda documents, changes, read_time: shown.put(documents))
    while watch.is_active:  # the SDK tells nobody that a listener was refused
        try:
            return shown.get(timeout=0.02)
        except queue.Empty:
            pass
    raise PermissionDenied("the listener ended")


for limit, offset in ((100, None), (100, 0), (1, 2**30)):
    query = db.collection("rollups").limit(limit)
    if offset is not None:
        query = query.offset(offset)
    reads = {"query": lambda q: q.get(), "aggregation": lambda q: q.count().get(), "listener": listen}
    for name, read in reads.items():
        try:
            read(query)
            print(offset or 0, name, "allowed")
        except PermissionDenied:
            print(offset or 0, name, "denied")
