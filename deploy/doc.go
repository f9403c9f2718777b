// Package deploy brings Tally's functions to a project of Google Cloud, and takes them away again,
// with the user's own gcloud and firebase commands.
//
// It works in three steps, one type each:
//
//	Settings   what there is to be: data, each value with its reason
//	State      what there is: gcloud's answers
//	Plan       the commands that make the one into the other; nothing if they are equal
//
// So running it again changes nothing, goes on after a failure, or updates. tally doctor checks what
// is deployed against the same Settings, and a test holds deploy/terraform equal to them.
package deploy
