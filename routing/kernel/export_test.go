package kernel

// SetWatchBuffer makes later subscriptions overrun after so many bytes.
func SetWatchBuffer(k *Kernel, bytes int) { k.watchBuffer = bytes }
