// Deployed is the program that Google's buildpack makes of the module's root package, for
// BenchmarkColdStart.
package main

import (
	"log"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	_ "github.com/firestore-tally/tally" // registers the functions
)

func main() {
	log.Fatal(funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT")))
}
