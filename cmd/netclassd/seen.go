package main

import (
	"crypto/sha256"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// seen is the configuration's file as it was when it was last read, so that who asks
// how the daemon stands learns that there is another by now.
type seen struct {
	mu      sync.Mutex
	content sum
	inForce []byte // the text of what is in force
	newest  stamp  // of the file that was read last
	is      sum    // and what it held
}

// sum is what a file holds; zero: there is none.
type sum [sha256.Size]byte

// stamp tells a file that has been written anew from what it was.
type stamp struct {
	size     int64
	modified time.Time
	inode    uint64
}

// take notes what the file holds now, before it is read. What is written meanwhile
// counts as newer.
func (s *seen) take(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content = s.look(path)
}

// text returns what the file holds, nil where that cannot be read.
func text(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, mostRead))
	if err != nil {
		return nil
	}
	return data
}

// changed reports whether the file holds something else than it did then, or is gone.
func (s *seen) changed(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.look(path) != s.content
}

// look returns what the file holds. It reads one only that has been written since.
func (s *seen) look(path string) sum {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return sum{}
	}
	now := stamp{info.Size(), info.ModTime(), inode(info)}
	if now == s.newest && s.is != (sum{}) {
		return s.is
	}
	data := text(path)
	if data == nil {
		return sum{}
	}
	s.newest, s.is = now, sha256.Sum256(data)
	return s.is
}

// inode is a file's number; 0: it has none.
func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// mostRead is more than a configuration may have, in bytes.
const mostRead = 2 << 20
