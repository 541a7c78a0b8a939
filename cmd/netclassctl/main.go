// Netclassctl asks the netclassd of this node how its traffic classes stand.
package main

import (
	"os"

	"netclass.dev/client/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], cli.System())) }
