// Package test holds laws about the repository: which package may import which, how code and docs
// read, and what workflows may do. It has no code of its own. The folders below it have what only
// tests use.
package test
