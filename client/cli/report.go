package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"netclass.dev/client"
)

// report prints an error in one line and returns the exit code for it.
func (a *app) report(err error) int {
	var ran runError
	var own exitWith
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errDegraded):
		return exitDegraded
	case errors.Is(err, errRefused):
		return exitError
	case !errors.As(err, &ran):
		_, _ = fmt.Fprintf(a.env.Err, "netclassctl: %s\n", clean(err.Error()))
		return exitUsage
	}
	_, _ = fmt.Fprintf(a.env.Err, "netclassctl: %s\n", clean(a.describe(err)))
	if client.IsInvalid(err) {
		for _, v := range client.Violations(err) {
			// The one fault of an argument is the error itself.
			if said := v.Field + ": " + v.Description; said != err.Error() {
				_, _ = fmt.Fprintf(a.env.Err, "%s\n", clean(said))
			}
		}
	}
	switch {
	case errors.As(err, &own):
		return own.code
	case client.IsNotFound(err):
		return exitNotFound
	case client.IsTimeout(err):
		return exitTimeout
	case badArgument(err):
		return exitUsage
	}
	return exitError
}

// badArgument reports whether the daemon has refused what it was asked by, rather than
// failed.
func badArgument(err error) bool {
	return client.IsInvalid(err) && client.Reason(err) == "BAD_ARGUMENT" && len(client.Violations(err)) == 1
}

// givenBy is what people give the fields of requests by, where that is something else.
var givenBy = map[string]string{
	"destination": "DST", "source": "--from", "iif": "--in", "node": "NODE", "name": "NAME", "table": "TABLE",
	"classes": "--class", "wait": "--wait", "grace": "--grace", "holder": "--holder", "reason": "--reason", "family": "-4, -6",
}

// describe says what to do about the errors that people meet first.
func (a *app) describe(err error) string {
	var unreachable *client.UnreachableError
	switch {
	case errors.As(err, &unreachable) && errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%v (be root%s)", err, socketGroup(a.socket))
	case errors.As(err, &unreachable):
		return err.Error() + " (is it running? --socket)"
	case errors.As(err, new(exitWith)):
		return err.Error()
	case badArgument(err):
		v := client.Violations(err)[0]
		return cmp.Or(givenBy[v.Field], v.Field) + ": " + v.Description
	case client.IsTimeout(err):
		return fmt.Sprintf("no answer from netclassd at %s within %v", a.socket, a.timeout)
	}
	return err.Error()
}

// socketGroup names the group that the socket is open to, where that can be seen.
func socketGroup(socket string) string {
	info, err := os.Stat(socket)
	if err != nil {
		// The folder is closed too, and belongs to the same group.
		info, err = os.Stat(filepath.Dir(socket))
	}
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Gid == 0 || info.Mode()&0o070 == 0 {
		return ""
	}
	gid := strconv.FormatUint(uint64(st.Gid), 10)
	if g, err := user.LookupGroupId(gid); err == nil {
		return fmt.Sprintf(" or a member of the group %q", g.Name)
	}
	return " or a member of the group " + gid
}
