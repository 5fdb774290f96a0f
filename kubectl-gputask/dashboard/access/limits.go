// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// How many tokens that nobody was admitted with lately are reviewed, from one address and from all together, per second
// and at once. A review takes up to nine requests to the API server.
const (
	reviewsPerAddress, burstPerAddress = 1, 10
	reviewsOfAll, burstOfAll           = 10, 50
	// maxAddresses is how many addresses have a limit of their own, those that were seen last. One is forgotten when
	// its burst is full again.
	maxAddresses  = 4096
	forgetAddress = burstPerAddress / reviewsPerAddress * time.Second
)

// limits bounds how many unknown tokens are reviewed.
type limits struct {
	clock     clock.Clock
	all       *rate.Limiter
	addresses *cache.LRUExpireCache
}

func newLimits(clock clock.Clock) *limits {
	return &limits{clock: clock, all: rate.NewLimiter(reviewsOfAll, burstOfAll), addresses: cache.NewLRUExpireCacheWithClock(maxAddresses, clock)}
}

// allow reports whether an unknown token from an address may be reviewed now. What one address sends beyond its limit
// takes nothing from others.
func (l *limits) allow(address string) bool {
	key := network(address)
	limiter, found := l.addresses.Get(key)
	if !found {
		limiter = rate.NewLimiter(reviewsPerAddress, burstPerAddress)
	}
	l.addresses.Add(key, limiter, forgetAddress)
	now := l.clock.Now()
	return limiter.(*rate.Limiter).AllowN(now, 1) && l.all.AllowN(now, 1)
}

// network returns what one client has of the addresses: an IPv4 address, or a network of IPv6 with 64 bits.
func network(address string) string {
	const ipv6Bits = 64
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	prefix, err := ip.Prefix(ipv6Bits)
	if err != nil {
		return ip.String()
	}
	return prefix.String()
}
