// h2spec's suite against one address: h2spec PORT PATH JUNIT_FILE [tls]. Ends with 0 when every case passes.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ok, err := h2spec.Run(&config.Config{
		Host:         "127.0.0.1",
		Port:         port,
		Path:         os.Args[2],
		JUnitReport:  os.Args[3],
		TLS:          len(os.Args) > 4,
		Insecure:     true,
		Timeout:      4 * time.Second,
		MaxHeaderLen: 4000,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}
