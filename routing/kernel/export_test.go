package kernel

import "golang.org/x/sys/unix"

// SetWatchBuffer makes later subscriptions overrun after so many bytes.
func SetWatchBuffer(k *Kernel, bytes int) { k.watchBuffer = bytes }

// SetWriteBuffer makes the answers to a batch overrun after so many bytes.
func SetWriteBuffer(k *Kernel, bytes int) error {
	return unix.SetsockoptInt(k.write.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes)
}
