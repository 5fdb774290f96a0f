// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	format "falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

var beginning = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// bench is a recorder of a small cluster, whose writer is called by the test.
type bench struct {
	*Recorder
	t       *testing.T
	clock   *clocktesting.FakeClock
	writer  *writer
	cluster *placement.Cluster
	policy  *packing.Policy
	pods    int
}

func newBench(t *testing.T, directory string, most int64, change ...func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, clock: clocktesting.NewFakeClock(beginning), policy: packing.New(packing.Default())}
	options := Options{
		Directory: directory, MaxBytes: most, Run: fmt.Sprint("run ", directory), Clock: b.clock, Logger: ktesting.NewLogger(t, ktesting.NewConfig()),
	}
	for _, apply := range change {
		apply(&options)
	}
	recorder, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	b.Recorder, b.writer, b.cluster = recorder, newWriter(recorder), placement.NewCluster(b.policy)
	b.cluster.Observe(observer{recorder})
	for i := range 3 {
		node := placement.Node{Name: fmt.Sprintf("node-%d", i), CPU: 64000, Memory: 1 << 18, Slots: 1000, Model: "h100", GPUs: make([]placement.GPU, 8)}
		if err := b.cluster.SetNode(node); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// observer gives the recorder what the engine says.
type observer struct{ *Recorder }

func (o observer) PodPlaced(pod *placement.Pod) {
	holder := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-" + pod.Name, Labels: map[string]string{"falldio.com/task": "train"}}}
	o.Recorder.PodPlaced(pod, holder, true)
}

// checkpointIfDue does what the mirror does.
func (b *bench) checkpointIfDue() (was bool) {
	due, all := b.Due()
	if !due {
		return false
	}
	contents := &mirror.Contents{All: all, Memory: b.policy.Memory()}
	b.cluster.Each(
		func(node *placement.Node, kind int) {
			contents.Nodes = append(contents.Nodes, mirror.Described{Node: node, Kind: kind})
		},
		func(pod *placement.Pod) { contents.Pods = append(contents.Pods, mirror.Held{Pod: pod}) },
	)
	b.Checkpoint(contents)
	return true
}

// decide places a Pod and records that.
func (b *bench) decide() {
	b.t.Helper()
	shape := placement.Shape{CPU: 100, Share: 5}
	gang := &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}}
	at := b.Position()
	q := &format.Question{Kind: format.Plan, After: at.After}
	q.SetGang(gang, nil)
	plan, fits, err := b.cluster.Plan(gang)
	if err != nil {
		b.t.Fatal(err)
	}
	d := &format.Decision{Time: b.clock.Now(), Subject: "default/p", Outcome: format.Waits, After: at.After, Digest: at.Digest.String(), Asked: []*format.Question{q}}
	if fits {
		q.SetPlan(plan)
		d.Outcome = format.Placed
	}
	b.Decided(d)
	if fits {
		b.pods++
		place := plan.Members[0].Place
		if err := b.cluster.Place(placement.Pod{Name: fmt.Sprint(b.pods), Node: place.Node, Use: place.Use}); err != nil {
			b.t.Fatal(err)
		}
	}
	if b.pods > 20 {
		b.cluster.Remove(fmt.Sprint(b.pods - 20))
	}
}

// read reads the journal as it is served.
func (b *bench) read() *format.Journal {
	b.t.Helper()
	response := httptest.NewRecorder()
	b.ServeHTTP(response, httptest.NewRequest(http.MethodGet, Path, nil))
	read, err := format.Read(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return read
}

// wantSame replays the journal.
func (b *bench) wantSame() *format.Journal {
	b.t.Helper()
	read := b.read()
	report, err := read.Replay(format.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	if report.Same != report.Decisions || report.Decisions == 0 {
		b.t.Errorf("the replay says %+v", report)
	}
	return read
}

func TestTheRingIsBoundedAndCanBeReadFromWhereItBegins(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	const most = 400 << 10
	b := newBench(t, directory, most)
	for range 3000 {
		b.checkpointIfDue()
		b.decide()
		if b.pods%50 == 0 {
			b.writer.write()
		}
		if total := b.ring.total(); total > most {
			t.Fatalf("the files have %d bytes, more than %d", total, most)
		}
	}
	b.writer.write()
	read := b.wantSame()
	if first := read.Decisions()[0].Number; first == 1 || read.LastNumber() != 3000 || read.Lost() > 0 || b.Dropped() > 0 {
		t.Errorf("the journal has decisions %d to %d; lost are %d, dropped %d", first, read.LastNumber(), read.Lost(), b.Dropped())
	}
	if read.Checkpoints() < 3 {
		t.Errorf("there are %d segments", read.Checkpoints())
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s, error %v", entry.Name(), info.Mode(), err)
		}
	}
}

func TestARestartContinuesTheRing(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	first := newBench(t, directory, 1<<20)
	first.checkpointIfDue()
	for range 10 {
		first.decide()
	}
	first.writer.write()
	first.writer.close()
	// It was killed while it wrote a line.
	path := filepath.Join(directory, format.SegmentName(1))
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"decision":{"number":11,"ti`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	second := newBench(t, directory, 1<<20, func(o *Options) { o.Run = "second" })
	second.checkpointIfDue()
	for range 5 {
		second.decide()
	}
	second.writer.write()
	read := second.wantSame()
	if read.LastNumber() != 15 || len(read.Decisions()) != 15 || len(read.Torn()) != 1 {
		t.Errorf("%d decisions, the last is %d, torn lines are %v", len(read.Decisions()), read.LastNumber(), read.Torn())
	}
}

func TestASegmentThatIsMissingIsNoticed(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	b := newBench(t, directory, 400<<10)
	for range 400 {
		b.checkpointIfDue()
		b.decide()
		b.writer.write()
	}
	if len(b.ring.segments) < 4 {
		t.Fatalf("there are %d segments", len(b.ring.segments))
	}
	if err := os.Remove(b.ring.segments[2].path); err != nil {
		t.Fatal(err)
	}
	read := b.wantSame()
	if read.Lost() == 0 {
		t.Error("nothing is said to be lost")
	}
}

// failing is a disk that is full from some time on.
type failing struct {
	mu     sync.Mutex
	full   bool
	writes int
}

func (f *failing) set(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
}

func (f *failing) create(path string) (io.WriteCloser, error) {
	file, err := create(path)
	return &failingFile{WriteCloser: file, disk: f}, err
}

type failingFile struct {
	io.WriteCloser
	disk *failing
}

var errNoSpace = errors.New("no space left on device")

// Write writes half of what it is given if the disk is full.
func (f *failingFile) Write(text []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.writes++
	if !f.disk.full {
		return f.WriteCloser.Write(text)
	}
	written, err := f.WriteCloser.Write(text[:len(text)/2])
	return written, errors.Join(err, errNoSpace)
}

func TestAFullDiskSwitchesItOffForAWhile(t *testing.T) {
	t.Parallel()
	disk := &failing{}
	b := newBench(t, t.TempDir(), 1<<20, func(o *Options) { o.create = disk.create })
	b.checkpointIfDue()
	for range 10 {
		b.decide()
	}
	b.writer.write()
	disk.set(true)
	b.decide()
	b.writer.write()
	writes := disk.writes
	for range 10 {
		b.checkpointIfDue()
		b.decide()
		b.writer.write()
	}
	if disk.writes != writes || b.Dropped() == 0 {
		t.Errorf("it was written %d times while it was off, dropped are %d", disk.writes-writes, b.Dropped())
	}
	disk.set(false)
	b.clock.Step(pause)
	if !b.checkpointIfDue() {
		t.Fatal("it does not go on after the pause")
	}
	for range 10 {
		b.decide()
	}
	b.writer.write()
	read := b.wantSame()
	if read.Lost() != 11 || len(read.Decisions()) != 20 {
		t.Errorf("%d decisions, lost are %d", len(read.Decisions()), read.Lost())
	}
}

func TestASlowDiskCostsRecordsAndNoTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, t.TempDir(), 1<<30)
	b.checkpointIfDue()
	for range maxBuffered/2 + 100 { // two changes and a decision each, and nobody writes
		b.decide()
	}
	if due, _ := b.Due(); b.Dropped() == 0 || due {
		t.Errorf("dropped are %d, a checkpoint is due: %t, although there is no room for it", b.Dropped(), due)
	}
	b.writer.write()
	if !b.checkpointIfDue() {
		t.Fatal("there is no new checkpoint")
	}
	for range 10 {
		b.decide()
	}
	b.writer.write()
	read := b.wantSame()
	if read.Lost() == 0 || read.Checkpoints() != 2 {
		t.Errorf("lost are %d, checkpoints %d", read.Lost(), read.Checkpoints())
	}
}

func TestAClusterThatIsTooLargeIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, t.TempDir(), 1<<11)
	b.checkpointIfDue()
	err := b.writer.writeAll(b.take(nil))
	if err == nil || !strings.Contains(err.Error(), "journal.maxMegabytes must be") {
		t.Errorf("error %v", err)
	}
}

func TestADirectoryThatCanNotBeMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Directory: filepath.Join(path, "journal"), MaxBytes: 1 << 20}); err == nil || !strings.Contains(err.Error(), "the journal's directory") {
		t.Errorf("error %v", err)
	}
}

func TestTheJournalIsServedCompressed(t *testing.T) {
	t.Parallel()
	b := newBench(t, t.TempDir(), 1<<20)
	b.checkpointIfDue()
	b.decide()
	b.writer.write()
	request := httptest.NewRequest(http.MethodGet, Path, nil)
	request.Header.Set("Accept-Encoding", "gzip")
	response := httptest.NewRecorder()
	b.ServeHTTP(response, request)
	text, err := gzip.NewReader(bytes.NewReader(response.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if read, err := format.Read(text); err != nil || len(read.Decisions()) != 1 {
		t.Errorf("error %v", err)
	}
	refused := httptest.NewRecorder()
	b.ServeHTTP(refused, httptest.NewRequest(http.MethodPost, Path, nil))
	if refused.Code != http.StatusMethodNotAllowed {
		t.Errorf("a POST is answered with %d", refused.Code)
	}
}

// The writer runs beside the cycle, and beside who reads the journal.
func TestWritingAndReadingDoNotDisturbTheCycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, t.TempDir(), 1<<20)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			b.writer.write()
			_, _ = b.ring.WriteTo(io.Discard)
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 3000 {
		b.checkpointIfDue()
		b.decide()
	}
	close(stop)
	<-done
	b.writer.write()
	b.wantSame()
}
