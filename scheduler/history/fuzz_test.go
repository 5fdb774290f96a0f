// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzUnpack reads any bytes as a section, and any bytes that were packed as one. What was packed is
// unpacked as it was, and what is too large is refused before it takes much memory.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte(`{"all":{"smallest":1}}`))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"))
	f.Add(bytes.Repeat([]byte("\x00"), 4096))
	f.Fuzz(func(t *testing.T, data []byte) {
		var restored []byte
		section := Section{Name: "any", Most: 1 << 20, Encode: func(part float64) ([]byte, error) {
			return data[:int(part*float64(len(data)))], nil
		}, Restore: func(data []byte) error { restored = bytes.Clone(data); return nil }}
		fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 8 * mostDecoded, CPU: 10 * time.Second}, 0, func() {
			if err := section.unpack(data); err == nil && len(restored) > mostDecoded {
				t.Errorf("%d bytes became %d", len(data), len(restored))
			}
		})
		packed, err := section.pack()
		if err != nil {
			t.Fatal(err)
		}
		if err := section.unpack(packed); err != nil || !bytes.Equal(restored, data) {
			t.Errorf("%q became %q: %v", data, restored, err)
		}
	})
}
