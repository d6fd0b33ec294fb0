// SPDX-License-Identifier: Apache-2.0

// A long native task and short ones that overtake it on the same worker; goroutines await them.
package main

import (
	"fmt"
	"log"

	"rubato"
	"rubato/internal/tasks"
)

func main() {
	counter := tasks.NewCounter()
	defer counter.Free()
	executor, err := rubato.New(rubato.Options{Workers: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer executor.Close()
	long := executor.Submit(rubato.Attributes{}, tasks.UntilHundred(), counter.C())
	for i := 0; i < 100; i++ {
		<-executor.Submit(rubato.Attributes{Type: 1}, tasks.AddOne(), counter.C())
	}
	fmt.Println("100 short tasks have ended; the long one:", (<-long).Outcome == rubato.Finished)
}
