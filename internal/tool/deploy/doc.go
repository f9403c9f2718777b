// Package deploy brings Tally's functions to a project of Google Cloud, and takes them away again.
//
// What is to be there is data: manifest.yaml and monitoring.yaml have each resource once, as its
// API has it, in the order in which they are made, and say why each setting has its value. A
// deployment takes four steps, each of which has what the one before it returned:
//
//	Read          asks Google's APIs what the project has: a State
//	Want          fills in the manifest by the app's folder and the State: a Description
//	Deploy        lists the steps from the State to the Description: a Plan
//	Run.Do        does the steps through Google's APIs
//
// Want and Deploy are pure: they call no API, and change nothing that they are given. tally doctor
// asks Want, and two parts of Deploy, Repair and Surplus; it shows their steps as findings.
//
// One loop makes all resources (apply.go). It reads a resource as it is now, compares it with what
// is wanted, and creates it, or changes what differs; what fails for a reason that passes it tries
// again for ten minutes, from the look on. The APIs have one form in common
// (https://google.aip.dev); where one differs, its [Kind] says so. Code of its own have only
//
//   - the functions (function.go), which are uploaded and built;
//   - roles (policy.go), which share a policy with those of others;
//   - indexes (builds.go), which must be built before routes need them;
//   - the order of a change of routes (plan.go), and what is surplus (surplus.go);
//   - the rules of an app (rules.go).
//
// errors.go has the table of the errors that pass, and of those that have a remedy.
//
// You need to know how Google Cloud runs the two functions. Cloud Build builds each function from
// source into a container image, which Artifact Registry keeps. Cloud Run serves the image as a
// Service. Firestore's events reach RollUpOnWrite in two steps. A Trigger of Eventarc picks the
// writes to some documents and hands them to Pub/Sub. There the trigger's Subscription pushes each
// event to the service, again and again until the answer is 2xx. A Job of Cloud Scheduler calls
// RollUpOnSchedule.
//
//	Firestore ─▶ Trigger ─▶ Subscription ─▶ RollUpOnWrite
//	                 Cloud Scheduler's Job ─▶ RollUpOnSchedule
//
// Functions, triggers, jobs and builds each act as a service account. It may do only what the roles
// allow that it is given on the other resources: a Grant is such a role.
package deploy
