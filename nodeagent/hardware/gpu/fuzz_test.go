// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

import "testing"

// FuzzAction reads any name and number of a recovery action. A name that is known is that of the
// action, so that a new agent reads from the inventory what an old one has written.
func FuzzAction(f *testing.F) {
	for _, name := range []string{"NodeReboot", "Unknown8", "Unknown", "Unknown-1", "Unknown+9", "Unknown08", "Unknown9223372036854775807", ""} {
		f.Add(name, 3)
	}
	f.Add("None", -1)
	f.Add("None", int(^uint(0)>>1))
	f.Fuzz(func(t *testing.T, name string, number int) {
		if action, known := ParseAction(name); known && action.String() != name {
			t.Errorf("%q is taken for %q", name, action)
		}
		action := NumberedAction(number)
		if back, known := ParseAction(action.String()); action != ActionUnknown && (!known || back != action) {
			t.Errorf("action %d is named %q, which is action %d", number, action, back)
		}
		if action.Required() && (action.Sentence() == "" || action.Severity() == 0) {
			t.Errorf("action %q says nothing", action)
		}
	})
}
