// Package doctor tells whether Tally is deployed in a project of Google Cloud as its exactness and
// its price need it.
//
// It works in two steps:
//
//	Read      asks Google's APIs, changes nothing, and returns a Deployment: facts, or why one could not be read
//	Examine   judges the facts by a list of Checks, and returns a Finding for each, with the commands that mend it
//
// What package deploy would set is what it looks for, but not by deploy's names: functions are found by
// their entry points, so that those deployed by hand or by Terraform are examined too.
//
// Only cmd/tally imports it. The clients of Google's APIs that it needs are large, and the deployed
// functions carry none of them.
package doctor
