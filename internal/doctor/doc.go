// Package doctor checks that Tally is deployed in a project of Google Cloud as tally deploy or its
// Terraform would deploy it, and that it works. Exactness and the price rest on both. It only
// reads.
package doctor
