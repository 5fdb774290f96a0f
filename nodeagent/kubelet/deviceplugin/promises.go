// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

// promises is what the scheduler has chosen for others than the container that
// asks.
type promises struct {
	// whole are devices, shares the sum of the shares by GPU.
	whole  map[string]bool
	shares map[string]int
}

// promisedToOthers returns what is chosen for other containers than the one that
// asks. What an init container gets, the others of its Pod get, too.
func promisedToOthers(claims []Claim, asking *Claim) *promises {
	p := &promises{whole: map[string]bool{}, shares: map[string]int{}}
	for i := range claims {
		claim := &claims[i]
		own := asking != nil && claim.UID == asking.UID && claim.Share == asking.Share &&
			(asking.Lends || claim.Container == asking.Container)
		if own {
			continue
		}
		for _, id := range claim.IDs {
			switch {
			case !claim.Share:
				p.whole[id] = true
			case !claim.Lends: // its Pod's other containers get the same shares
				p.shares[id] += claim.Size
			}
		}
	}
	return p
}

// ids returns the devices of which anything is promised.
func (p *promises) ids() []string {
	ids := make([]string, 0, len(p.whole)+len(p.shares))
	for id := range p.whole {
		ids = append(ids, id)
	}
	for id := range p.shares {
		ids = append(ids, id)
	}
	return ids
}
