// SPDX-License-Identifier: Apache-2.0

// M/M/16 in schedsim, for against_simulators.py: mm16_schedsim REQUESTS SEED prints the requests
// served, the CPU time, and the mean latency in mean services. schedsim takes its seed from the
// time, and ends by its own clock, so the number of requests is a mean. Its own statistics are on.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/epfl-dcsl/schedsim/blocks"
	"github.com/epfl-dcsl/schedsim/engine"
)

const (
	workers = 16
	load    = 0.8
)

// latencies counts what its parent keeps.
type latencies struct {
	blocks.AllKeeper
	served int
	sum    float64
}

func (l *latencies) TerminateReq(request engine.ReqInterface) {
	l.served++
	l.sum += request.GetDelay()
	l.AllKeeper.TerminateReq(request)
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func main() {
	requests, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	begun := cpuSeconds()
	engine.InitSim()
	all := &latencies{}
	generator := blocks.NewMMRandGenerator(load*workers, 1)
	generator.SetCreator(&blocks.SimpleReqCreator{})
	queue := blocks.NewQueue()
	for i := 0; i < workers; i++ {
		processor := &blocks.RTCProcessor{}
		processor.AddInQueue(queue)
		processor.SetReqDrain(all)
		engine.RegisterActor(processor)
	}
	generator.AddOutQueue(queue)
	engine.RegisterActor(generator)
	engine.Run(requests / (load * workers))
	fmt.Printf("{\"requests\": %d, \"cpu_s\": %.6f, \"mean\": %.6f}\n", all.served,
		cpuSeconds()-begun, all.sum/float64(all.served))
}
