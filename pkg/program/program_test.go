// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

func TestAProgramRunsOnlyWithFlagsThatArePossible(t *testing.T) { //nolint:paralleltest // logging is set up for the process
	before := klog.Background()
	for name, tc := range map[string]struct {
		args  []string
		done  []string
		fails string
	}{
		"it runs after its flags were checked":     {[]string{"--color=blue", "--logging-format=json"}, []string{"check []", "run blue"}, ""},
		"what is no flag is checked, too":          {[]string{"up"}, []string{"check [up]"}, "unexpected arguments"},
		"a flag that does not exist":               {[]string{"--colour=blue"}, nil, "unknown flag"},
		"a format of the log that does not exist":  {[]string{"--logging-format=xml"}, []string{"check []"}, "xml"},
		"the version is printed, and nothing else": {[]string{"--version"}, nil, ""},
		"help is no run":                           {[]string{"--help"}, nil, pflag.ErrHelp.Error()},
	} {
		opts := NewOptions()
		flags := pflag.NewFlagSet("paint", pflag.ContinueOnError)
		flags.Usage = func() {}
		color := flags.String("color", "red", "the color")
		opts.AddFlags(flags)
		var done []string
		err := opts.Start(klog.NewContext(t.Context(), before), "v1", flags, tc.args, func(args []string) error {
			done = append(done, "check ["+strings.Join(args, " ")+"]")
			if len(args) > 0 {
				return errors.New("unexpected arguments")
			}
			return nil
		}, func(ctx context.Context) error {
			if klog.FromContext(ctx).GetSink() == before.GetSink() {
				t.Errorf("%s: it does not log as its flags say", name)
			}
			done = append(done, "run "+*color)
			return nil
		})
		if diff := cmp.Diff(tc.done, done); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("%s: got error %v, want %q in it", name, err, tc.fails)
		}
	}
}

func TestTheExitCodeSaysWhetherTheProgramFailed(t *testing.T) {
	t.Parallel()
	for want, errs := range [][]error{{nil, pflag.ErrHelp}, {errors.New("no paint")}} {
		for _, err := range errs {
			if got := Run("paint", func(context.Context) error { return err }); got != want {
				t.Errorf("error %v: exit code %d, want %d", err, got, want)
			}
		}
	}
}
