package strictyaml

import (
	"io"
	"os"
)

// ReadFile reads a file, but of one that is larger than the limits allow only
// so much that Parse refuses it.
func ReadFile(path string, limits Limits) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limits.Bytes)+1))
}
