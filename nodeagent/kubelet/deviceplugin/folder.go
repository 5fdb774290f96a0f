// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"strings"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

// folder watches the sockets in a folder. Without inotify it sees nothing, and
// the caller is left with looking now and then.
type folder struct {
	dir     string
	watcher *fsnotify.Watcher // nil if there is none
	add     func(dir string) error
	events  chan fsnotify.Event
	errors  chan error
	// blind is true while the folder can't be watched.
	blind bool
}

func newFolder(ctx context.Context, dir string) *folder {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		klog.FromContext(ctx).Error(err, "The folder can't be watched, changes are noticed later", "folder", dir)
		return &folder{dir: dir, blind: true}
	}
	return &folder{dir: dir, watcher: watcher, add: watcher.Add, events: watcher.Events, errors: watcher.Errors}
}

// watch begins to watch, or to watch again. It does nothing if the folder is
// watched already.
func (f *folder) watch(ctx context.Context) {
	if f.watcher == nil {
		return
	}
	err := f.add(f.dir)
	if err != nil && !f.blind {
		klog.FromContext(ctx).Error(err, "The folder can't be watched, changes are noticed later", "folder", f.dir)
	}
	f.blind = err != nil
}

// concerns reports whether events mean something: the kubelet also writes its
// checkpoint into the folder.
func concerns(event fsnotify.Event) bool {
	return strings.HasSuffix(event.Name, socketSuffix)
}

func (f *folder) close() {
	if f.watcher != nil {
		_ = f.watcher.Close() // nothing can be done about it
	}
}
