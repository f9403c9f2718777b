// Package deploy brings Tally's functions to a project of Google Cloud, and takes them away again:
// a Description is what there is to be, as data; a State is what there is, as Google's clients read
// it; a Plan is the user's own gcloud's commands that make the one into the other, none if they are
// equal. tally doctor shows the same Plan as findings, and a Description is also written as a
// Terraform configuration.
package deploy
