// Package deploy brings Tally's functions to a project of Google Cloud, and takes them away again.
//
// A Description says, as data, which resources a deployment consists of. A State holds the
// resources that Google's APIs have. A Plan lists the gcloud commands that turn the State into
// the Description; it is empty if nothing differs. tally doctor shows the same Plan as findings,
// and Terraform writes the Description as a configuration.
package deploy
