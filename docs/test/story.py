"""Sums what the Python of docs/clients.md has incremented, as that page says."""

from google.cloud import firestore

db = firestore.Client()
[[total]] = db.collection("counters/python/shards").sum("count").get()
assert total.value == 3
