package document

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// LongestID is Firestore's limit for a document's id and for a field's name, in bytes
// (https://cloud.google.com/firestore/quotas).
const LongestID = 1500

// CheckID checks an id by Firestore's constraints on ids and field names. Its error is a sentence
// without a subject, such as "is empty". The caller puts the subject before it.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty")
	case id == "." || id == "..":
		return fmt.Errorf("is %q, which Firestore does not allow", id)
	case len(id) >= 4 && strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__"):
		return fmt.Errorf("is %q, and Firestore reserves names that begin and end with two underscores", id)
	case strings.Contains(id, "/"):
		return fmt.Errorf("is %q, which holds a slash", id)
	case len(id) > LongestID:
		return fmt.Errorf("is longer than %d bytes, Firestore's limit", LongestID)
	case !utf8.ValidString(id):
		return fmt.Errorf("is %q, which is not valid UTF-8", id)
	}
	return nil
}
