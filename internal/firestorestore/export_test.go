package firestorestore

// After returns the id that follows an id, if one does.
var After = after
