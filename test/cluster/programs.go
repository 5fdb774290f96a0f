// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"falldio.github.io/gpu-controller/localcluster/names"
)

// programsVariable is the environment variable with the absolute path of a folder with programs of
// another release of Kubernetes: kube-apiserver, kube-controller-manager, kubelet. All clusters of
// tests run with them, so that any test can be run with that release.
const programsVariable = "KUBERNETES_PROGRAMS"

// kubelet is the name of that program in the folder.
const kubelet = "kubelet"

// Programs returns the arguments that make "localcluster up" run the programs of Kubernetes in a
// folder. Those that are missing there are localcluster's own.
func Programs(folder string) ([]string, error) {
	var args []string
	for _, name := range []string{names.APIServer, names.ControllerManager} {
		if path := filepath.Join(folder, name); exists(path) {
			args = append(args, "--"+name+"="+path)
		}
	}
	if len(args) == 0 && !exists(filepath.Join(folder, kubelet)) {
		return nil, fmt.Errorf("no program of Kubernetes in %s: hack/build-kubernetes.sh builds some", folder)
	}
	return args, nil
}

// ProgramsFromEnvironment returns the same for the folder in $KUBERNETES_PROGRAMS; nothing if it is
// not set.
func ProgramsFromEnvironment() ([]string, error) {
	folder := os.Getenv(programsVariable)
	if folder == "" {
		return nil, nil
	}
	return Programs(folder)
}

// Kubelet returns the path of a kubelet: that of $KUBERNETES_PROGRAMS, or the own one.
func Kubelet(own string) string {
	if folder := os.Getenv(programsVariable); folder != "" {
		if path := filepath.Join(folder, kubelet); exists(path) {
			return path
		}
	}
	return own
}

func exists(path string) bool {
	_, err := os.Stat(path) //nolint:gosec // a folder that the user has named
	return err == nil
}
