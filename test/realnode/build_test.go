// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"path/filepath"

	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// raceAgent is the node agent with the race detector.
	raceAgent = "nodeagent-race"
	// raceDriver is the DRA driver with it.
	raceDriver = "dradriver-race"
)

// The agent and the DRA driver as shipped, for containers.
const (
	agentProgram  = "nodeagent"
	driverProgram = "dradriver"
)

// dnsProgram is CoreDNS, in the test's directory.
const dnsProgram = "coredns"

// exampleProgram is Kubernetes' example of a DRA driver, in the test's directory.
const exampleProgram = "dra-example-kubeletplugin"

// build builds the agent and the driver with the race detector, and in dir CoreDNS and the example
// of a DRA driver.
func build(dir string) error {
	inModule := func(module, program, what string) programs.Command {
		return programs.Command{Environment: "CGO_ENABLED=0", Args: []string{
			"go", "build", "-C", filepath.Join("test", "realnode", module), "-ldflags", "-s -w", "-o", filepath.Join(dir, program), what,
		}}
	}
	return programs.Build(
		programs.WithRace(raceAgent, "./nodeagent"),
		programs.WithRace(raceDriver, "./dradriver"),
		inModule("coredns", dnsProgram, "."),
		inModule("exampledriver", exampleProgram, "sigs.k8s.io/dra-example-driver/cmd/"+exampleProgram),
	)
}
