// Package note keeps what events leave for audits: notes that counters need one, although no cycle
// may be due (docs/design/schedule.md#what-does-not-wait-for-the-cycle).
package note
