// Package doctor checks that Tally is deployed in a project of Google Cloud as tally deploy would
// deploy it, and that it works. Exactness and the price rest on both. Without the project it checks
// the app's folder. It only reads.
//
// [Checks] are all checks, each with what it claims and why that matters. They are made in two
// steps:
//
//   - [Read] reads the project, and plans what tally deploy would do there (package deploy).
//     [Local] reads no project, and says why. Both return a [Deployment].
//   - [Deployment.Examine] makes all checks at once, and returns a [Finding] for each. The check
//     as-deployed has a problem for each difference that tally deploy would fix. Other checks ask
//     what the manifest cannot answer, and read for themselves what only they need, such as metrics
//     of Cloud Monitoring, or the results of a trial of the security rules.
//
// A finding is Well or Wrong. It is Unknown if something could not be read, and Idle if what it
// would check is missing, which another finding says.
package doctor
