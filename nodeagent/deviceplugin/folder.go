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
	watcher *fsnotify.Watcher
	events  chan fsnotify.Event
	errors  chan error
}

func newFolder(ctx context.Context, dir string) *folder {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		klog.FromContext(ctx).Error(err, "The folder can't be watched, changes are noticed later", "folder", dir)
		return &folder{dir: dir}
	}
	return &folder{dir: dir, watcher: watcher, events: watcher.Events, errors: watcher.Errors}
}

// watch begins to watch. It does nothing if the folder is watched already, and
// fails if there is no folder.
func (f *folder) watch() error {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.Add(f.dir)
}

// concerns is true for events that mean something: the kubelet also writes its
// checkpoint into the folder.
func concerns(event fsnotify.Event) bool {
	return strings.HasSuffix(event.Name, socketSuffix)
}

func (f *folder) close() {
	if f.watcher != nil {
		_ = f.watcher.Close() // nothing can be done about it
	}
}
