// Package watchfile tells when a file that people or programs replace may have
// changed.
package watchfile

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"netclass.dev/routing/alarm"
)

const (
	// settle is how long the folder must be quiet before the file is read:
	// editors and ConfigMap updates make several events.
	settle = 50 * time.Millisecond
	// longest bounds the wait for quiet in a folder that never is.
	longest = time.Second
	// retry is how often a folder that is not there is looked for.
	retry = 2 * time.Second
	// recheck finds changes that come without an event, as on some network
	// file systems or behind a symbolic link to another folder.
	recheck = 30 * time.Second
)

// Watch calls look at once and after each change of the file at path, until ctx
// ends: also after a rename onto it, a ConfigMap's swapped link, and when its
// folder is not there yet. It may call look when nothing has changed.
//
// A file is best replaced by renaming a finished one onto it: of one that is
// written in place and slowly, a part may be seen that is valid by itself.
func Watch(ctx context.Context, path string, log *slog.Logger, look func()) {
	look()
	for ctx.Err() == nil {
		err := watch(ctx, path, log, look)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !errors.Is(err, os.ErrNotExist) {
			log.Debug("file not watched", slog.String("path", path), slog.Any("error", err))
		}
		look()
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// watch follows the file's folder until it goes away. The folder, because a
// file that is replaced by rename, or a ConfigMap's link that is swapped, takes
// a watch on the file itself with it.
func watch(ctx context.Context, path string, log *slog.Logger, look func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	folder := filepath.Dir(path)
	if err := w.Add(folder); err != nil {
		return err
	}
	look() // what changed before the watch was there
	stamp, watched := stampOf(path), statOf(folder)
	again := make(chan struct{}, 1)
	clock, err := alarm.New(func() {
		select {
		case again <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer clock.Close()
	if err := clock.Every(recheck); err != nil {
		return err
	}
	quiet := time.NewTimer(0)
	<-quiet.C
	var first time.Time // of the events since the last read
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err, ok := <-w.Errors:
			if !ok {
				return fsnotify.ErrClosed
			}
			// Events were lost: look.
			log.Debug("file events lost", slog.String("path", path), slog.Any("error", err))
			quiet.Reset(settle)
		case e, ok := <-w.Events:
			if !ok {
				return fsnotify.ErrClosed
			}
			if e.Name == folder && e.Has(fsnotify.Remove|fsnotify.Rename) {
				return os.ErrNotExist
			}
			if first.IsZero() {
				first = time.Now()
			}
			quiet.Reset(min(settle, max(0, longest-time.Since(first))))
		case <-quiet.C:
			first = time.Time{}
			stamp = stampOf(path)
			look()
		case <-again:
			if now := statOf(folder); watched == nil || now == nil || !os.SameFile(watched, now) {
				return os.ErrNotExist // another folder has taken its name
			}
			if now := stampOf(path); now != stamp {
				stamp = now
				look()
			}
		}
	}
}

// statOf returns what is at path, or nil.
func statOf(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// stamp tells one state of a file from another without reading it.
type stamp struct {
	size int64
	time time.Time
}

func stampOf(path string) stamp {
	info := statOf(path)
	if info == nil {
		return stamp{size: -1}
	}
	return stamp{size: info.Size(), time: info.ModTime()}
}
