package main

import (
	"os"

	"falldio.github.io/gpu-controller/localcluster/components"
)

func main() {
	os.Exit(components.Run(os.Args[1], os.Args[2:]))
}
