// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"
)

func TestTextsOfTheClusterDoNothingToATerminal(t *testing.T) {
	t.Parallel()
	painter := Page{Colours: true}
	for name, test := range map[string]struct{ text, want string }{
		"ordinary text in any language":      {"waits für 4 GPUs – 待機\n\tand more", "waits für 4 GPUs – 待機\n\tand more"},
		"our own styles":                     {painter.Paint(Red, "x") + painter.Paint(Bold, "y"), "\x1b[31mx\x1b[0m\x1b[1my\x1b[0m"},
		"the title of the terminal":          {"\x1b]0;owned\a", `^[]0;owned\u0007`},
		"text that is hidden":                {"\x1b[8mdeleted\x1b[28m", "^[[8mdeleted^[[28m"},
		"another text over this one":         {"Failed\rRunning", `Failed\rRunning`},
		"the text before is taken back":      {"Failed\b\b\b", `Failed\b\b\b`},
		"sequences that begin with one byte": {"\u009b2J \u009fx \u009ex \u0098x", `\u009b2J \u009fx \u009ex \u0098x`},
		"other letters and answers":          {"\x0eabc\x05\x7f", `\u000eabc\u0005\u007f`},
		"another direction":                  {"\u202edeliaF", `\u202edeliaF`},
		"the line before":                    {"\u008dx", `\u008dx`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if n, err := Safe(&out).Write([]byte(test.text)); err != nil || n != len(test.text) || out.String() != test.want {
				t.Errorf("%q was written as %q (%d, %v), want %q", test.text, out.String(), n, err, test.want)
			}
		})
	}
}
