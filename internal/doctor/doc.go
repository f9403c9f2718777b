// Package doctor checks that Tally is deployed in a project of Google Cloud as tally deploy or its
// Terraform would deploy it, and that it works. Exactness and the price rest on both. Without the
// project it checks the app's folder. It only reads.
package doctor
