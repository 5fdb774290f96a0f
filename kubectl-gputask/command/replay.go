// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	"falldio.github.io/gpu-controller/pkg/journal"
)

type replay struct {
	*session
	output
	policy   string
	decision int
	limit    int
}

func newReplay(s *session) *cobra.Command {
	r := &replay{session: s}
	command := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay the scheduler's journal of decisions",
		Long: `Replay the scheduler's journal of decisions, and show where this version, or another policy, would
have decided differently. No cluster is needed.

FILE is a journal as gpu-scheduler serves it at /debug/gputask/journal, the directory in which it
keeps the journal, or - for stdin. Each decision is made again in the cluster as it was recorded then:
different decisions have no effect on later ones. Refusals by kube-scheduler's filters, preempted Pods
and reservations are taken from the journal.

Policies: packing is gpu-scheduler's own, with what it had learned by then; fewest-free chooses the node
with the fewest GPUs left, most-free the node with the most, first-node the first node by name.`,
		Example: `  kubectl gputask replay journal.jsonl
  kubectl gputask replay journal.jsonl --policy fewest-free
  kubectl gputask replay journal.jsonl --decision 42`,
		GroupID: groupCluster,
		Args:    oneFile,
		RunE:    func(_ *cobra.Command, args []string) error { return r.run(args[0]) },
	}
	flags := command.Flags()
	flags.StringVar(&r.policy, "policy", "", "policy to replay with (default: as recorded)")
	flags.IntVar(&r.decision, "decision", 0, "show all details of the decision with this number")
	flags.IntVar(&r.limit, "limit", 20, "maximum number of differences to show; 0 means all")
	complete(command, "policy", fixed(journal.Policies()...))
	complete(command, "decision", noCompletion)
	complete(command, "limit", noCompletion)
	r.addTo(command)
	return command
}

// oneFile requires exactly one file.
func oneFile(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs one file, a directory, or - for stdin, got %d: %s", command.Name(), len(args), command.UseLine())
	}
	return nil
}

func (r *replay) run(file string) error {
	if err := r.validate(); err != nil {
		return err
	}
	if r.policy != "" {
		if err := journal.CheckPolicy(r.policy); err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
	}
	switch {
	case r.limit < 0:
		return fmt.Errorf("--limit=%d: must not be negative", r.limit)
	case r.decision < 0:
		return fmt.Errorf("--decision=%d: must be the number of a decision, from 1", r.decision)
	}
	read, err := r.read(file)
	if err != nil {
		return err
	}
	if r.decision > 0 {
		return r.explain(read)
	}
	report, err := read.Replay(journal.Options{Policy: r.policy})
	if err != nil {
		return err
	}
	if !r.isText() {
		return r.printValue(r.Out, report)
	}
	show.Replay(r.page(), report, r.limit)
	return nil
}

// explain shows one decision.
func (r *replay) explain(read *journal.Journal) error {
	explained, err := read.Explain(r.decision, journal.MaxRanked)
	if err != nil {
		return fmt.Errorf("--decision=%d: %w", r.decision, err)
	}
	if !r.isText() {
		return r.printValue(r.Out, explained)
	}
	show.Decision(r.page(), explained, read.Levels())
	return nil
}

// read reads a journal from a file, a directory or the standard input.
func (r *replay) read(file string) (*journal.Journal, error) {
	read, err := r.readFrom(file)
	if err != nil && !errors.As(err, new(*os.PathError)) {
		return nil, fmt.Errorf("%s: %w", file, err) // else it has the path
	}
	return read, err
}

func (r *replay) readFrom(file string) (*journal.Journal, error) {
	if file == "-" {
		return readJournal(r.In)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readSegments(file)
	}
	opened, err := os.Open(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	return readJournal(opened)
}

// readJournal reads a journal that may be compressed.
func readJournal(from io.Reader) (*journal.Journal, error) {
	buffered := bufio.NewReader(from)
	if begin, err := buffered.Peek(2); err != nil || !bytes.Equal(begin, []byte{0x1f, 0x8b}) {
		return journal.Read(buffered)
	}
	text, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, err
	}
	return journal.Read(text)
}

// readSegments reads the segments in a directory.
func readSegments(directory string) (*journal.Journal, error) {
	entries, err := os.ReadDir(directory) // sorted by name
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, entry := range entries {
		if _, isSegment := journal.SegmentNumber(entry.Name()); !isSegment {
			continue
		}
		segment, err := os.ReadFile(filepath.Join(directory, entry.Name())) //nolint:gosec // the user names the directory
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just been removed
		}
		if err != nil {
			return nil, err
		}
		if _, err := journal.Append(&text, bytes.NewReader(segment)); err != nil {
			return nil, err
		}
	}
	return journal.Read(&text)
}
