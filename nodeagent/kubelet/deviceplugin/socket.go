// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	socketSuffix = ".sock"
	// instanceLength is the length of the random part of a socket's name.
	instanceLength = 8
	// maxPrefix keeps the path under the limit of 108 bytes for a socket's path.
	maxPrefix = 40
	// deathGrace is how long a socket may refuse connections, as a new one does for a
	// moment.
	deathGrace = time.Second
)

// sockets names the sockets of a resource's plugins: prefix-instance.sock for the first
// registration of a process, then prefix-instance.2.sock and so on. Each process is an
// instance, so that overlapping processes don't delete each other's socket.
type sockets struct {
	dir, prefix, instance string
	// number is that of the own socket.
	number int
	// pattern matches the sockets of all instances; its first group is the instance.
	pattern *regexp.Regexp
	readDir func(dir string) ([]os.DirEntry, error)
	// silent is when a socket was first seen to refuse connections.
	silent map[string]time.Time
}

func newSockets(dir, resource string) *sockets {
	prefix := strings.ReplaceAll(resource, "/", "_")
	if len(prefix) > maxPrefix {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(resource)) // never fails
		prefix = fmt.Sprintf("%s_%08x", prefix[:maxPrefix-9], hash.Sum32())
	}
	return &sockets{
		dir:      dir,
		prefix:   prefix,
		instance: rand.String(instanceLength),
		number:   1,
		readDir:  os.ReadDir,
		silent:   map[string]time.Time{},
		pattern:  regexp.MustCompile("^" + regexp.QuoteMeta(prefix) + `-([a-z0-9]{8})(\.[0-9]+)?` + regexp.QuoteMeta(socketSuffix) + "$"),
	}
}

// own returns the name of this process's socket.
func (s *sockets) own() string {
	name := s.prefix + "-" + s.instance
	if s.number > 1 {
		name += "." + strconv.Itoa(s.number)
	}
	return name + socketSuffix
}

func (s *sockets) path() string { return filepath.Join(s.dir, s.own()) }

// renew gives this process's socket a name that it never had.
func (s *sockets) renew() { s.number++ }

// otherInstance returns the other process that a socket belongs to; empty if it belongs to
// this one or is no socket of the resource.
func (s *sockets) otherInstance(name string) string {
	match := s.pattern.FindStringSubmatch(name)
	if match == nil || match[1] == s.instance {
		return ""
	}
	return match[1]
}

// others returns the other processes that serve the resource, or nil if their sockets
// can't be listed. It deletes the sockets of dead processes; an error together with a
// result means that one could not be deleted. The caller should call it again after the
// grace period if there are silent ones.
func (s *sockets) others(ctx context.Context, now time.Time) (map[string]bool, error) {
	entries, err := s.readDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("looking for other plugins: %w", err)
	}
	others := map[string]bool{}
	silent := map[string]time.Time{}
	var problem error
	for _, entry := range entries {
		name := entry.Name()
		instance := s.otherInstance(name)
		if instance == "" {
			continue
		}
		if !refusesConnections(ctx, filepath.Join(s.dir, name)) {
			others[instance] = true
			continue
		}
		since, known := s.silent[name]
		if !known {
			since = now
		}
		if now.Sub(since) >= deathGrace {
			err := os.Remove(filepath.Join(s.dir, name))
			if err == nil || errors.Is(err, os.ErrNotExist) {
				continue
			}
			problem = fmt.Errorf("deleting the socket of a dead plugin: %w", err)
		}
		others[instance], silent[name] = true, since
	}
	s.silent = silent
	return others, problem
}

// refusesConnections reports whether no process listens on a socket.
func refusesConnections(ctx context.Context, path string) bool {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", path)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close() // nothing was sent
	return false
}
