// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allow

import (
	"net/url"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzTarget parses any target, and asks a list whether it is allowed. A target is what it says in
// its canonical form, for those who probe it as well, and no list allows another host.
func FuzzTarget(f *testing.F) {
	f.Add("https://Registry.Example.com./v2/?a=b", uint8(0), "", `["*.example.com", "10.0.0.1:*", "https://registry.example.com/v2/?a=b"]`)
	f.Add("[::1]:80", uint8(1), "", `["[::1]:80"]`)
	f.Add("::ffff:10.0.0.1", uint8(2), "", `["10.0.0.1"]`)
	f.Add("example.com", uint8(1), "53", `["example.com"]`)
	f.Add("http://a@b/", uint8(0), "", `["b", "a"]`)
	f.Add("http://b\\@a/%2e%2e/?#x", uint8(0), "", `[]`)
	f.Add("a:080", uint8(1), "", `["a:80"]`)
	f.Fuzz(func(t *testing.T, text string, kindNumber uint8, defaultPort, listText string) {
		var list *List
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(listText), func() { list, err = ParseList([]byte(listText)) })
		if err != nil {
			list = &List{}
		}
		kind := Kind(kindNumber % 3)
		target, err := Parse(kind, text, defaultPort)
		if err != nil {
			return
		}
		canonical := target.String()
		again, err := Parse(kind, canonical, defaultPort)
		if len(canonical) > MaxTargetBytes {
			return // escaping makes it longer than the limit
		}
		if err != nil || again != target {
			t.Fatalf("%q is %q, which is %+v, not %+v: %v", text, canonical, again, target, err)
		}
		if list.Allows(target) != list.Allows(again) {
			t.Errorf("%q is allowed, %q is not, or the other way round", text, canonical)
		}
		if kind == URL {
			probed, err := url.Parse(canonical)
			if err != nil || probed.User != nil || !strings.EqualFold(probed.Hostname(), target.host) {
				t.Errorf("%q is probed at %v, and was checked as %q: %v", canonical, probed, target.host, err)
			}
		}
		nothing, everywhere := &List{}, &List{entries: []entry{{host: target.host, port: anyPort}}}
		if nothing.Allows(target) || !everywhere.Allows(target) {
			t.Errorf("%q is allowed by an empty list, or not by one with its host", canonical)
		}
		other := &List{entries: []entry{{host: "x" + target.host, port: anyPort}, {host: target.host + "x", port: anyPort, suffix: true}}}
		if other.Allows(target) {
			t.Errorf("%q is allowed by a list of other hosts", canonical)
		}
	})
}
