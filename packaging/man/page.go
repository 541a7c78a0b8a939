package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"netclass.dev/version"
)

// entry is a term and what is to be said of it.
type entry struct{ term, text string }

// program is what every page of a program says, beside what its commands say of
// themselves.
type program struct {
	exit        string
	environment []entry
	files       []entry
	see         []string // pages
}

var programs = map[string]program{
	"netclassd": {
		exit: "0 ended as it was told to, 1 error, 2 usage, 78 the configuration cannot be used.",
		environment: []entry{
			{"NODE_NAME", "this node's name, where neither --node nor the configuration has one."},
			{"NOTIFY_SOCKET, WATCHDOG_USEC, JOURNAL_STREAM, INVOCATION_ID, CREDENTIALS_DIRECTORY", "as systemd sets them: readiness and watchdog, a log of fields, what an end of the service is, and passwords."},
			{"GOGC, GOMAXPROCS", "Go's own; set, they take the place of what netclassd chooses for itself."},
		},
		files: []entry{
			{"/etc/netclassd/config.yaml", "the configuration: see " + configPage + "(5)."},
			{"/run/netclassd/netclassd.sock", "the socket that netclassctl talks to."},
			{"/var/lib/netclassd", "what must not be forgotten: the tables and priorities ever used, and a copy of the nodes."},
			{"/usr/share/doc/netclass/examples/reference.yaml", "every key of the configuration, with its default."},
		},
		see: []string{"netclassctl(1)", configPage + "(5)"},
	},
	"netclassctl": {
		exit: "0 answered, 1 error, 2 usage, 3 degraded or broken (from status, health, verify and explain only), 4 not found, 5 timed out.",
		environment: []entry{
			{"NETCLASSD_SOCKET", "the socket, where --socket does not name one."},
			{"NO_COLOR", "set to anything, nothing is coloured; nor with TERM=dumb."},
		},
		files: []entry{
			{"/run/netclassd/netclassd.sock", "the daemon's socket."},
			{"/usr/share/doc/netclass/docs/status.md", "every health and reason that status shows, and what to do."},
		},
		see: []string{"netclassd(8)"},
	},
}

// pageName is what a command's page is called: "netclassctl-status".
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// commandPage is the page of a command.
func commandPage(cmd *cobra.Command, section string, date time.Time) []byte {
	p := newPage(pageName(cmd), section, date)
	about := programs[cmd.Root().Name()]
	p.section("NAME")
	p.text(pageName(cmd) + " - " + cmd.Short)
	p.section("SYNOPSIS")
	p.bold(cmd.UseLine())
	p.section("DESCRIPTION")
	long, exit := description(cmd)
	p.help(long)
	if len(visible(cmd)) > 0 {
		p.section("COMMANDS")
		for _, sub := range visible(cmd) {
			p.entry(entry{sub.Name(), sub.Short + "."})
		}
	}
	p.options("OPTIONS", cmd.NonInheritedFlags())
	p.options("OPTIONS OF EVERY COMMAND", cmd.InheritedFlags())
	p.section("EXIT STATUS")
	if exit == "" {
		exit = about.exit
	}
	p.text(exit)
	p.list("ENVIRONMENT", about.environment)
	p.list("FILES", about.files)
	p.section("SEE ALSO")
	p.references(related(cmd, section, about.see))
	return p.bytes()
}

// description is what a command says of itself, and of that its exit codes.
func description(cmd *cobra.Command) (text, exit string) {
	if cmd.Long == "" {
		return cmd.Short + ".", ""
	}
	var rest []string
	for _, paragraph := range strings.Split(cmd.Long, "\n\n") {
		if codes, found := strings.CutPrefix(paragraph, "Exit codes: "); found {
			exit = codes
		} else {
			rest = append(rest, paragraph)
		}
	}
	return strings.Join(rest, "\n\n"), exit
}

// visible are the subcommands that have pages.
func visible(cmd *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" && cmd.Name() != "completion" {
			list = append(list, sub)
		}
	}
	return list
}

// related are the pages to look at next: of the commands above and below, and of the
// other program.
func related(cmd *cobra.Command, section string, see []string) []string {
	var list []string
	if cmd.HasParent() {
		list = append(list, pageName(cmd.Parent())+"("+section+")")
	}
	for _, sub := range visible(cmd) {
		list = append(list, pageName(sub)+"("+section+")")
	}
	return append(list, see...)
}

func newPage(name, section string, date time.Time) *page {
	p := &page{}
	p.line(`.TH "%s" "%s" "%s" "netclass %s" "netclass"`, strings.ToUpper(name), section, date.Format("2006-01-02"), quoted(version.String()))
	p.line(".nh") // hyphens would be taken for the words' own
	p.line(".ad l")
	return p
}
