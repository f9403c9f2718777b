// Package deploy brings Tally's functions to a project of Google Cloud, and takes them away again.
//
//	Description   what there is to be: resources of Google's APIs and their settings, as data
//	State         what there is, as Google's clients read it
//	Plan          the user's own gcloud's commands that make the one into the other; none if they are equal
//
// So running it again changes nothing, goes on after a failure, or updates. tally doctor shows the same
// Plan as findings, and a Description is also written as a Terraform configuration.
package deploy
