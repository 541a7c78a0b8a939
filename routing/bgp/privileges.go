package bgp

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UserEnv tells the speaker which user to become, as UID:GID. Empty: stay.
const UserEnv = "NETCLASS_SPEAKER_USER"

// droppedEnv marks the second life of the process, after the drop.
const droppedEnv = "NETCLASS_SPEAKER_DROPPED"

const bindService = 1 << unix.CAP_NET_BIND_SERVICE

// dropPrivileges leaves the process with CAP_NET_BIND_SERVICE at most, as
// another user where it may change that, and unable to gain anything by exec.
//
// Capabilities and users belong to threads, and Go has started several by now.
// So one thread drops everything and executes the program anew: exec ends all
// other threads, and those of the new program inherit from this one.
func dropPrivileges() error {
	if os.Getenv(droppedEnv) != "" {
		os.Unsetenv(droppedEnv)
		// The name in ps; executed by /proc/self/exe it would be "exe".
		_ = os.WriteFile("/proc/self/comm", []byte("netclass-bgp"), 0)
		// Passwords are in memory: no debugger, no core.
		return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	runtime.LockOSThread()

	held, err := permitted()
	if err != nil {
		return err
	}
	for c := uintptr(0); c <= 63; c++ {
		if c != unix.CAP_NET_BIND_SERVICE {
			// EPERM without CAP_SETPCAP, EINVAL beyond the last capability.
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
	}
	if user := os.Getenv(UserEnv); user != "" && held&(1<<unix.CAP_SETUID) != 0 && othersMayExecute() {
		if err := become(user); err != nil {
			return err
		}
	}
	if err := keepOnly(held & bindService); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	// A change of user clears it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent death signal: %w", err)
	}
	env := append(os.Environ(), droppedEnv+"=1")
	return fmt.Errorf("execute %s anew: %w", os.Args[0], unix.Exec("/proc/self/exe", os.Args, env))
}

// othersMayExecute reports whether another user can execute this program.
func othersMayExecute() bool {
	st, err := os.Stat("/proc/self/exe")
	return err == nil && st.Mode()&0o001 != 0
}

// become changes user, group and supplementary groups of this thread, keeping
// the permitted capabilities.
func become(user string) error {
	u, g, ok := strings.Cut(user, ":")
	uid, err1 := strconv.ParseUint(u, 10, 31)
	gid, err2 := strconv.ParseUint(g, 10, 31)
	if !ok || err1 != nil || err2 != nil {
		return fmt.Errorf("user %q is not UID:GID", user)
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	// The raw calls: the library's change every thread, or refuse to where C is
	// linked in.
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return fmt.Errorf("drop supplementary groups: %w", e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); e != 0 {
		return fmt.Errorf("become group %d: %w", gid, e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
		return fmt.Errorf("become user %d: %w", uid, e)
	}
	return nil
}

// permitted returns this thread's permitted capabilities.
func permitted() (uint64, error) {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&h, &d[0]); err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return uint64(d[1].Permitted)<<32 | uint64(d[0].Permitted), nil
}

// keepOnly gives up every capability of this thread but those, which are made
// ambient so that exec keeps them.
func keepOnly(caps uint64) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low := uint32(caps)
	d := [2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: low}}
	if _, _, e := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&d[0])), 0); e != 0 {
		return fmt.Errorf("set capabilities: %w", e)
	}
	if caps&bindService == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_BIND_SERVICE, 0, 0); err != nil {
		return fmt.Errorf("raise ambient capability: %w", err)
	}
	return nil
}
