// Empty is a function that does nothing, on the functions framework, for BenchmarkColdStart.
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
)

func main() {
	functions.HTTP("RollUpOnWrite", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT")))
}
