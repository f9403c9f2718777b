// Package doctor tells whether Tally is deployed in a project of Google Cloud as its exactness and
// its price need it: as tally deploy, or its Terraform, would make it, and going well. It reads,
// and changes nothing.
package doctor
