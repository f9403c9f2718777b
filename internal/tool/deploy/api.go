package deploy

// API is the kind of APIs that are enabled. Mend enables all that are missing by one command.
var API Kind = &common{noun: "API", from: servicesAPI, api: "v1"}

// apis are the services that the project needs.
var apis = []string{
	"artifactregistry.googleapis.com", // keeps the functions' container images
	"cloudbilling.googleapis.com",     // tally doctor reads whether billing is on
	"cloudbuild.googleapis.com",       // builds them
	"cloudfunctions.googleapis.com",
	"cloudresourcemanager.googleapis.com", // the project's policy is read from it
	"cloudscheduler.googleapis.com",       // calls RollUpOnSchedule
	"eventarc.googleapis.com",             // calls RollUpOnWrite
	"eventarcpublishing.googleapis.com",
	"firebaserules.googleapis.com", // tally doctor reads the rules
	"firestore.googleapis.com",
	"iam.googleapis.com", // service accounts
	"logging.googleapis.com",
	"monitoring.googleapis.com",
	"pubsub.googleapis.com",  // Eventarc's transport
	"run.googleapis.com",     // runs the functions
	"storage.googleapis.com", // keeps their source
}
