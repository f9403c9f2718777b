// Package deploy brings Tally's functions to a project of Google Cloud, and takes them away again.
//
// A deployment takes four steps, each of which has what the one before it returned:
//
//	Read          asks Google's APIs what the project has: a State
//	Want          says what is to be there, by the app's folder and the State: a Description
//	Deploy        lists the steps from the State to the Description: a Plan
//	Tools.Run     does the steps, by gcloud and the Firebase CLI
//
// Want and Deploy are pure: they call nobody, and change nothing that they are given. tally doctor
// asks Want, and two parts of Deploy, Mend and Surplus; it shows their steps as findings. Terraform
// writes the Description as a configuration, and Plan.Script writes the Plan for a shell.
//
// One must know how Google Cloud runs the two functions. Cloud Build builds each function from
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
//
// A Description consists of Resources and Grants. Each kind of resource, such as Trigger, has a
// file: how people, gcloud and the API call it, why each setting has its value, and how Terraform
// says it. The list kinds has them in the order in which they are made: each after those that it
// needs.
//
//	run: Function, Service       find events: Trigger, Subscription   repair: Job
//	build: Repository, Cleanup   store: Index, Field, TTL             allow: API, Account, Project
//	log and watch: Exclusion, Metric, Channel, Alert, Dashboard
package deploy
