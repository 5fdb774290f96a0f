// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prepared

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/pkg/durable"
)

// claimClass is the class of the CDI devices that tell a container of its share.
const claimClass = "claim"

// shareVariable is the environment variable with a container's share of its GPU, in percent;
// the device plugin sets the same one.
const shareVariable = "GPU_SHARE_PERCENT"

// CDIDevices returns the names by which the container runtime knows what a container gets of the
// device at a place of the claim: the GPU, and if it is shared what it has of it.
func (c Claim) CDIDevices(place int) []string {
	device := &c.Devices[place]
	names := []string{cdi.Name(cdi.DRADriver().Kind(cdi.Class), device.UUID)}
	if c.limits(place) {
		names = append(names, cdi.Name(cdi.DRADriver().Kind(claimClass), c.cdiName(place)))
	}
	return names
}

// limits reports whether a container has a share of a device.
func (c Claim) limits(place int) bool { return !c.Devices[place].Whole() && !c.Devices[place].Admin }

// cdiName contains the claim's UID, so that no runtime finds an earlier one in its cache.
func (c Claim) cdiName(place int) string { return string(c.UID) + "-" + strconv.Itoa(place) }

// Spec returns the CDI specification of a claim; nil if it has no shares.
func (c Claim) Spec() *specs.Spec {
	spec := cdi.NewSpec()
	spec.Kind = cdi.DRADriver().Kind(claimClass)
	for place := range c.Devices {
		if c.limits(place) {
			spec.Devices = append(spec.Devices, specs.Device{Name: c.cdiName(place), ContainerEdits: specs.ContainerEdits{
				Env: []string{shareVariable + "=" + strconv.FormatInt(c.Devices[place].Percent, 10)},
			}})
		}
	}
	if len(spec.Devices) == 0 {
		return nil
	}
	return spec
}

// Files are the CDI specifications of claims, in the directory of the container runtime.
type Files struct{ Dir string }

func (f Files) path(uid types.UID) string {
	return cdi.DRADriver().Path(f.Dir, claimClass+"_"+string(uid))
}

// isOfClaim reports whether a path is that of a claim's specification, or of one that has not
// been finished.
func (f Files) isOfClaim(path string) bool {
	beginning := f.path("")
	return strings.HasPrefix(path, strings.TrimSuffix(beginning, filepath.Ext(beginning)))
}

// Write writes the specification of a claim, if it needs one.
func (f Files) Write(claim Claim) error {
	spec := claim.Spec()
	if spec == nil {
		return f.Remove(claim.UID) // the claim may have been allocated anew
	}
	if err := os.MkdirAll(f.Dir, 0o755); err != nil { //nolint:gosec // the runtime may run as another user
		return err
	}
	if err := cdi.WriteSpec(f.path(claim.UID), spec); err != nil {
		return fmt.Errorf("the CDI specification of ResourceClaim %s can't be written: %w; see --cdi-spec-dir", claim, err)
	}
	return nil
}

// Remove removes the specification of a claim, if there is one.
func (f Files) Remove(uid types.UID) error {
	return durable.Remove(f.path(uid))
}

// Reconcile writes the specifications of these claims that are missing, and removes those of all
// others: what a run has left that was killed, or that somebody has removed.
func (f Files) Reconcile(claims []Claim) error {
	present, err := cdi.DRADriver().Files(f.Dir)
	if err != nil {
		return err
	}
	var problems []error
	wanted := map[string]bool{}
	for _, claim := range claims {
		path := f.path(claim.UID)
		if wanted[path] = claim.Spec() != nil; wanted[path] && !slices.Contains(present, path) {
			problems = append(problems, f.Write(claim))
		}
	}
	for _, path := range present {
		if f.isOfClaim(path) && !wanted[path] {
			problems = append(problems, durable.Remove(path))
		}
	}
	return errors.Join(problems...)
}
