package document

// A Reference is the value of a field that refers to a document of the same database. It is that
// document's path below the database's root.
type Reference string
