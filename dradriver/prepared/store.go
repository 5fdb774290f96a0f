// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prepared

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/pkg/durable"
)

// checkpointFile has the prepared claims, in the driver's directory.
const checkpointFile = "prepared.json"

// checkpointVersion is the version of the file's format.
const checkpointVersion = "v1"

// checkpoint is the content of the file.
type checkpoint struct {
	Version string  `json:"version"`
	Claims  []Claim `json:"claims"`
}

// Store keeps the prepared claims. Every change is in the file before it counts: the kubelet
// does not say again what it had prepared, and claims may be deleted when it has them released.
type Store struct {
	path string

	mu     sync.Mutex
	claims map[types.UID]Claim
}

// OpenStore returns the claims that an earlier run has prepared, as its file in a directory has
// them.
func OpenStore(dir string) (*Store, error) {
	store := &Store{path: filepath.Join(dir, checkpointFile), claims: map[types.UID]Claim{}}
	content, err := os.ReadFile(store.path)
	if errors.Is(err, os.ErrNotExist) {
		return store, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the list of prepared claims: %w", err)
	}
	var saved checkpoint
	if err := json.Unmarshal(content, &saved); err != nil {
		return nil, fmt.Errorf("the list of prepared claims %s: %w; drain the node, then remove the file", store.path, err)
	}
	if saved.Version != checkpointVersion {
		return nil, fmt.Errorf("the list of prepared claims %s has the version %q, which this program does not know; drain the node, then remove the file", store.path, saved.Version)
	}
	for _, claim := range saved.Claims {
		if err := claim.validate(); err != nil {
			return nil, fmt.Errorf("the list of prepared claims %s: ResourceClaim %s: %w; drain the node, then remove the file", store.path, claim, err)
		}
		store.claims[claim.UID] = claim
	}
	return store, nil
}

// validate returns what is wrong with a claim that was read: with a share that is none, the shares of a
// GPU would add up to too little, and it would be given to others as well.
func (c *Claim) validate() error {
	if c.UID == "" {
		return errors.New("the uid is missing")
	}
	for i := range c.Devices {
		if percent := c.Devices[i].Percent; percent < 1 || percent > share.PerGPU {
			return fmt.Errorf("devices[%d].percent: must be from 1 to %d, is %d", i, share.PerGPU, percent)
		}
	}
	return nil
}

// Get returns a prepared claim.
func (s *Store) Get(uid types.UID) (Claim, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim, found := s.claims[uid]
	return claim, found
}

// All returns all prepared claims, sorted by namespace and name.
func (s *Store) All() []Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.claims)
}

func sorted(claims map[types.UID]Claim) []Claim {
	return slices.SortedFunc(maps.Values(claims), func(a, b Claim) int {
		return strings.Compare(a.String()+string(a.UID), b.String()+string(b.UID))
	})
}

// Put adds or replaces a claim.
func (s *Store) Put(claim Claim) error {
	return s.change(func(claims map[types.UID]Claim) { claims[claim.UID] = claim })
}

// Delete removes a claim. One that is not there is no error.
func (s *Store) Delete(uid types.UID) error {
	if _, found := s.Get(uid); !found {
		return nil
	}
	return s.change(func(claims map[types.UID]Claim) { delete(claims, uid) })
}

func (s *Store) change(apply func(map[types.UID]Claim)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims := maps.Clone(s.claims)
	apply(claims)
	content, err := json.MarshalIndent(checkpoint{Version: checkpointVersion, Claims: sorted(claims)}, "", "  ")
	if err == nil {
		err = durable.Replace(s.path, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("the list of prepared claims can't be written: %w", err)
	}
	s.claims = claims
	return nil
}
