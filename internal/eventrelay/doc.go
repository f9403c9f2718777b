// Package eventrelay delivers the Firestore emulator's document events to
// functions processes the way Eventarc does.
//
// Google's Firestore emulator posts an event for each write that matches a
// registered trigger, but not as Eventarc would: it sends what a functions
// framework cannot read, and it sends it once. A [Relay] stands between the two.
//
//	emulator ──POST──▶ Relay.ServeHTTP ─┐ repair                  ┌─▶ http://…:8081/RollUpOnWrite
//	                                    ├─▶ queue ─▶ deliver, ────┼─▶ http://…:8082/RollUpOnWrite
//	Listen or a test ─▶ Relay.Deliver ──┘     retry until a 2xx   └─▶ …
//
// An [Event] is a CloudEvent as it goes over HTTP. It comes from a request of
// the emulator (which ServeHTTP repairs), from [Listen] (for an emulator that
// somebody else started and that posts nothing), or from [NewEvent].
//
// Eventarc promises that an event arrives at least once: perhaps twice, perhaps
// late, in no order, and again if the answer was lost. [Faults] makes these
// happen, each at a chosen rate and each decided by a seed.
//
// # What the emulator sends
//
// Seen on version 1.19.9, the one that the Google Cloud CLI installs, by
// registering triggers that point at a plain HTTP server and recording what came.
// One request of each kind is in testdata, byte for byte.
//
// Each event is one POST to /functions/projects/{project}/triggers/{trigger}. Its
// headers carry the CloudEvent's attributes (the values are those of an update to
// counters/likes/shards/3):
//
//	ce-specversion      1.0
//	ce-type             google.cloud.firestore.document.v1.written, for every kind of write
//	ce-source           //firestore.googleapis.com/projects/projects/demo-tally/databases/(default)
//	ce-id               96bc57ab-f152-4422-8432-7c2d369339e5, a random UUID
//	ce-subject          documents/counters/likes/shards/3
//	ce-time             2026-11-21T03:47:17Z, the commit time without its fraction
//	ce-datacontenttype  application/protobuf
//	ce-dataschema       the address of the schema in googleapis/google-cloudevents
//	ce-location         us-central1, whatever the project
//	ce-project          demo-tally
//	ce-database         (default)
//	ce-namespace        (default)
//	ce-document         counters/likes/shards/3
//	Content-Type        application/protobuf
//
// The body is a google.events.cloud.firestore.v1.DocumentEventData: a create has
// only value, a delete only old_value, an update both. update_mask is present and
// empty, also when fields changed.
//
// ServeHTTP repairs what differs from Eventarc:
//   - The body is base64 text. It is decoded.
//   - There is a ce-datacontenttype header. In the binary content mode Content-Type
//     alone says that; with both, functions-framework-go 1.9.2 answers 500. It is dropped.
//   - ce-source says "projects/projects/". Eventarc says it once.
//   - An event that is not answered with 2xx, or whose connection is refused, is
//     lost: five answers of 500 and three refused connections brought no second
//     request. The Relay answers at once and does the retrying.
//
// What differs and stays as it is:
//   - A write that changes nothing emits an event. Production emits none.
//   - Several writes to one document in one commit make one event.
//   - Two triggers that match one write make two events with different ids. 1,000
//     writes under one trigger had 1,000 ids.
//   - ce-subject and ce-document hold the path as raw UTF-8; the CloudEvents
//     specification wants space, "%" and non-ASCII characters percent-encoded. The
//     name inside the body needs no decoding: read that. With a line break in a
//     document's id the emulator cannot send the event, and with another control
//     character but tab net/http refuses it; either way it is lost.
//   - Events of one trigger come one at a time: the next waits for the answer to the last.
//   - Clearing a project (DELETE /emulator/v1/…/documents) emits a delete for each document.
package eventrelay
