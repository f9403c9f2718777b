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
// asks the same two, and shows the steps as findings. Terraform writes the Description as a
// configuration, and Plan.Script writes the Plan for a shell.
//
// A Description consists of Resources. Each kind of these, such as Trigger, has a file of its own: how
// people, gcloud and the API call it, why each setting has its value, and how Terraform says it. The
// order of kinds is that in which one needs the other.
//
//	run it: Function, Service      find events: Trigger, Subscription    repair: Job
//	build it: Repository, Cleanup  store: Index, Field, TTL, Exclusion   watch: Metric, Alert, Channel, Dashboard
//	allow it: API, Account, Project, with Grants
package deploy
