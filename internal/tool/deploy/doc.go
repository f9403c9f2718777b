// Package deploy brings Tally's functions to a project of Google Cloud, and takes them away again.
//
// The data says what should be there. manifest.yaml and monitoring.yaml have each resource once, as
// its API has it, in the order in which they are made, and say why each setting has its value.
// kinds.yaml says how each API differs from the form that Google's APIs have in common
// (https://google.aip.dev), and verdicts.yaml which errors pass, and which have a remedy.
//
// One loop makes all resources (apply.go):
//
//	for each resource of the manifest, in its order
//	    look at it        is it there? Which fields differ, which roles are missing?
//	    make the change   create it, update the fields that differ, give and take roles
//	    wait              until the operation has ended
//
// It retries transient failures for ten minutes, rereading the resource each time. So a try after a
// lost answer finds what the one before has made. A plan is the same loop, which only looks; tally
// doctor shows its steps as findings.
//
//	Open            a project: its number, its APIs, its databases, its functions
//	Want            what should be there, by the app's folder and what is deployed: a Deployment
//	Deployment.Plan the steps from what is there to that
//	Project.Do      does the steps
//
// The rest is what a loop over resources cannot know:
//
//   - the source of the functions (function.go), which is uploaded before they are built;
//   - roles (policy.go), which share a policy with those of others;
//   - the order of a change of routes, and what waits for what (order.go);
//   - what Tally has too much of (undeploy.go);
//   - indexes, which must be built before routes need them (indexes.go);
//   - triggers that are as the manifest wants them, and deliver nothing (triggers.go).
//
// You need to know how Google Cloud runs the two functions. Cloud Build builds each function from
// source into a container image, which Artifact Registry keeps. Cloud Run serves the image as a
// service. Firestore's events reach RollUpOnWrite in two steps. A trigger of Eventarc picks the
// writes to some documents and hands them to Pub/Sub. There the trigger's subscription pushes each
// event to the service, again and again until the answer is 2xx. A job of Cloud Scheduler calls
// RollUpOnSchedule.
//
//	Firestore ─▶ trigger ─▶ subscription ─▶ RollUpOnWrite
//	                 Cloud Scheduler's job ─▶ RollUpOnSchedule
//
// Functions, triggers, jobs and builds each act as a service account. It may do only what the roles
// allow that it is given on the other resources: a Grant is such a role.
package deploy
