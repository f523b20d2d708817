// Fill puts the reports of long forms into their places in a page:
//
//	go run ./test/report/fill REPORTS docs/reliability.md
package main

import (
	"fmt"
	"os"

	"innerd/test/report"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: fill REPORTS PAGE")
		os.Exit(2)
	}
	page, err := os.ReadFile(os.Args[2])
	if err == nil {
		page, err = report.Fill(page, os.Args[1])
	}
	if err == nil {
		err = os.WriteFile(os.Args[2], page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}
