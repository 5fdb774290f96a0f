// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// faultFile is a file with faults and what they caused.
type faultFile struct {
	*FaultFile
	t        *testing.T
	path     string
	happened []string
	refusal  error
}

func newFaultFile(t *testing.T) *faultFile {
	t.Helper()
	file := &faultFile{t: t, path: filepath.Join(t.TempDir(), "faults.yaml")}
	file.FaultFile = NewFaultFile(file.path, func(fault Fault) error {
		which := "all"
		if fault.GPU != nil {
			which = fmt.Sprint(*fault.GPU)
		}
		file.happened = append(file.happened, strings.TrimSpace(fmt.Sprintf("%s %s %s", fault.Node, which, fault.Fault)))
		return file.refusal
	})
	return file
}

// check checks the file with new content, and what happens then. The content "-"
// is no file.
func (f *faultFile) check(content string, want ...string) {
	f.t.Helper()
	if content == "-" {
		if err := os.Remove(f.path); err != nil {
			f.t.Fatal(err)
		}
	} else {
		write(f.t, f.path, content)
	}
	f.happened = nil
	if err := f.Check(); err != nil {
		f.t.Errorf("%q: %v", content, err)
	}
	if diff := cmp.Diff(want, f.happened); diff != "" {
		f.t.Errorf("%q (-want +got):\n%s", content, diff)
	}
}

func TestFaultFileFollowsTheFile(t *testing.T) {
	t.Parallel()
	file := newFaultFile(t)
	if err := file.Check(); err != nil {
		t.Errorf("without a file: %v", err)
	}
	file.check("[]")
	file.check("[{gpu: 0, fault: Lost}]", "0 Lost")
	file.check("[{gpu: 0, fault: Lost}]")
	file.check("[{fault: Lost, gpu: 0}] # written differently")
	file.check("[{gpu: 0, fault: Lost}, {node: n2, fault: ECC}]", "n2 all ECC")
	file.check("[{node: n2, fault: ECC}]", "0 Recovered", "n2 all ECC")
	file.check("[{node: n2, gpu: 1, fault: Slow, delay: 1s}]", "n2 all Recovered", "n2 1 Slow")
	file.check("[{node: n2, gpu: 1, fault: Slow, delay: 2s}]", "n2 1 Recovered", "n2 1 Slow")
	file.check("-", "n2 1 Recovered")
	file.check("[{gpu: 0, fault: Lost}]", "0 Lost")
	file.check("", "0 Recovered")
}

func TestFaultFileKeepsTheOtherFaultsOfAGPUThatRecovers(t *testing.T) {
	t.Parallel()
	file := newFaultFile(t)
	file.check("[{node: n1, gpu: 0, fault: Lost}, {node: n1, gpu: 0, fault: XID, xid: 79}, {node: n1, gpu: 1, fault: ECC}]",
		"n1 0 Lost", "n1 0 XID", "n1 1 ECC")
	file.check("[{node: n1, gpu: 0, fault: Lost}, {node: n1, gpu: 1, fault: ECC}]", "n1 0 Recovered", "n1 0 Lost")
	file.check("[{node: n1, gpu: 0, fault: Lost}, {node: n1, gpu: 1, fault: ECC}, {node: n1, fault: Hung}]", "n1 all Hung")
	file.check("[{node: n1, gpu: 0, fault: Lost}, {node: n1, gpu: 1, fault: ECC}]", "n1 all Recovered", "n1 0 Lost", "n1 1 ECC")
}

func TestFaultFileWithAMistakeChangesNothing(t *testing.T) {
	t.Parallel()
	file := newFaultFile(t)
	file.check("[{gpu: 0, fault: Lost}]", "0 Lost")
	file.happened = nil
	for _, content := range []string{"[{gpu: 0, fault: Lo", "[{gpu: 0, fault: Broken}]"} {
		write(t, file.path, content)
		if err := file.Check(); err == nil || !strings.Contains(err.Error(), file.path+": ") {
			t.Errorf("%q: got error %v, want one that names the file", content, err)
		}
		if err := file.Check(); err != nil {
			t.Errorf("%q: the error is reported a second time: %v", content, err)
		}
	}
	if file.happened != nil {
		t.Errorf("a mistake made happen: %v", file.happened)
	}
	file.check("[{gpu: 0, fault: Lost}, {gpu: 1, fault: Lost}]", "1 Lost")
	file.check("[{gpu: 1, fault: Lost}]", "0 Recovered")
}

func TestFaultFileTellsOfARefusal(t *testing.T) {
	t.Parallel()
	file := newFaultFile(t)
	file.refusal = errors.New("gpu: there is no GPU 9")
	write(t, file.path, "[{gpu: 9, fault: Lost}, {gpu: 0, fault: Lost}]")
	if err := file.Check(); err == nil || !strings.Contains(err.Error(), "there is no GPU 9") {
		t.Errorf("got error %v", err)
	}
	if diff := cmp.Diff([]string{"9 Lost", "0 Lost"}, file.happened); diff != "" {
		t.Errorf("the other fault (-want +got):\n%s", diff)
	}
}

func TestFaultFileThatIsAFolderIsAnError(t *testing.T) {
	t.Parallel()
	if err := NewFaultFile(t.TempDir(), nil).Check(); err == nil || !strings.Contains(err.Error(), "reading the faults: ") {
		t.Errorf("got error %v", err)
	}
}
