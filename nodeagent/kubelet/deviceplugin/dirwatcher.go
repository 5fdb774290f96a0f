// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"strings"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

// dirWatcher watches the sockets in a directory. Without inotify it reports nothing, and
// the caller has to poll.
type dirWatcher struct {
	dir     string
	watcher *fsnotify.Watcher // nil without inotify
	add     func(dir string) error
	events  chan fsnotify.Event
	errors  chan error
	// blind is true while the directory can't be watched.
	blind bool
}

func newDirWatcher(ctx context.Context, dir string) *dirWatcher {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		klog.FromContext(ctx).Error(err, "The directory can't be watched, changes are noticed later", "folder", dir)
		return &dirWatcher{dir: dir, blind: true}
	}
	return &dirWatcher{dir: dir, watcher: watcher, add: watcher.Add, events: watcher.Events, errors: watcher.Errors}
}

// watch starts or resumes watching. It does nothing if the directory is being watched.
func (d *dirWatcher) watch(ctx context.Context) {
	if d.watcher == nil {
		return
	}
	err := d.add(d.dir)
	if err != nil && !d.blind {
		klog.FromContext(ctx).Error(err, "The directory can't be watched, changes are noticed later", "folder", d.dir)
	}
	d.blind = err != nil
}

// isRelevant reports whether an event is about a socket: the kubelet also writes its
// checkpoint into the directory.
func isRelevant(event fsnotify.Event) bool {
	return strings.HasSuffix(event.Name, socketSuffix)
}

func (d *dirWatcher) close() {
	if d.watcher != nil {
		_ = d.watcher.Close() // an error would not matter any more
	}
}
