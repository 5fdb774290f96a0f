// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

import "testing"

func TestActionsHaveNVMLsNumbers(t *testing.T) {
	t.Parallel()
	for number, name := range []string{
		"None", "GPUReset", "NodeReboot", "DrainP2P", "DrainAndReset", "RecoverIMEXDomain", "BusReset", "SystemReboot", "Unknown8", "Unknown9",
	} {
		action := NumberedAction(number)
		if action.String() != name {
			t.Errorf("action %d is %q, want %q", number, action, name)
		}
		if parsed, known := ParseAction(name); !known || parsed != action {
			t.Errorf("%q is parsed as %q, %v", name, parsed, known)
		}
		if required := number > 0; action.Required() != required || (action.Sentence() != "") != required || (action.Severity() > 0) != required {
			t.Errorf("%s: required %v, severity %d, %q", name, action.Required(), action.Severity(), action.Sentence())
		}
	}
	if action := NumberedAction(-1); action != ActionUnknown {
		t.Errorf("a negative number is %q", action)
	}
}

func TestParseActionRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpureset", "Reset", "Unknown", "Unknown-1", "Unknown1", "Unknown08", "8"} {
		if action, known := ParseAction(name); known {
			t.Errorf("%q is %q", name, action)
		}
	}
	if action, known := ParseAction(""); action != ActionUnknown || !known {
		t.Errorf("no name is %q, %v", action, known)
	}
}

func TestWhatAResetOfTheGPUEnds(t *testing.T) {
	t.Parallel()
	ended := map[Action]bool{ActionGPUReset: true, ActionDrainAndReset: true, ActionBusReset: true}
	for action := ActionUnknown; action <= NumberedAction(9); action++ {
		if action.EndedByReset() != ended[action] {
			t.Errorf("%s: ended by a reset: %v", action, action.EndedByReset())
		}
	}
}

func TestARebootIsTheMostSevereAction(t *testing.T) {
	t.Parallel()
	for action := ActionUnknown; action <= NumberedAction(9); action++ {
		if reboot := action == ActionNodeReboot || action == ActionSystemReboot; !reboot && action.Severity() >= ActionNodeReboot.Severity() {
			t.Errorf("%s has severity %d, a reboot %d", action, action.Severity(), ActionNodeReboot.Severity())
		}
	}
}
