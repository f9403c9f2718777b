package route

import "time"

// ZoneOf returns a zone of the tz database.
func ZoneOf(mustName string) *time.Location {
	z, err := zoneOf(mustName)
	if err != nil {
		panic(err)
	}
	return z.Location
}
