package main

import (
	"bytes"
	"debug/elf"
	"fmt"
)

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// runsOn returns an error unless a program is one for Linux on that architecture
// that needs no other file: a root has no libraries.
func runsOn(program []byte, arch string) error {
	want, ok := machines[arch]
	if !ok {
		return fmt.Errorf("there is no architecture %q", arch)
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	if f.Machine != want {
		return fmt.Errorf("the program is for %s, not %s", f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("the program is not static: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
