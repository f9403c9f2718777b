package document

// A Reference is the value of a field that refers to a document of the same database. It is that
// document's path below the database's root.
type Reference string

// Hidden stands for a value of a field that an event may not show.
type Hidden struct{}
