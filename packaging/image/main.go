// Command netclass-image builds the images of netclass from static binaries, and
// renders kustomizations, without a container engine and without kubectl. The same
// binaries give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const usage = `usage:
  netclass-image build [flags]   build the images for Kubernetes and Talos
  netclass-image render FOLDER   print what a kustomization makes
`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "netclass-image: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) > 0 && args[0] == "build":
		return build(args[1:], out)
	case len(args) == 2 && args[0] == "render":
		text, err := render(args[1])
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	return errors.New(usage)
}

// release is what is built.
type release struct {
	version  string
	created  time.Time // of the commit: the time of the build would make each one differ
	binaries string    // folder with a folder for each architecture, linux_amd64 and so on, and the LICENSES of all
	talos    string    // folder with the extension's manifest and service
}

func build(args []string, out io.Writer) error {
	var r release
	var epoch int64
	var folder, architectures string
	f := flag.NewFlagSet("build", flag.ContinueOnError)
	f.StringVar(&r.version, "version", "", "the `VERSION` of the binaries")
	f.Int64Var(&epoch, "created", 0, "when the images count as created, in `SECONDS` since 1970")
	f.StringVar(&r.binaries, "binaries", "dist/bin", "the `FOLDER` with linux_ARCH/netclassd, linux_ARCH/netclassctl and LICENSES")
	f.StringVar(&r.talos, "talos", "packaging/talos", "the `FOLDER` with the Talos extension's manifest and service")
	f.StringVar(&folder, "out", "dist/images", "the `FOLDER` that the images are written to")
	f.StringVar(&architectures, "arch", "amd64,arm64", "the architectures, a `LIST`")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("build takes no argument %q", f.Arg(0))
	case r.version == "":
		return errors.New("build: --version is needed")
	}
	r.created = time.Unix(epoch, 0).UTC()
	for _, kind := range kinds {
		index, err := r.index(kind, strings.Split(architectures, ","))
		if err != nil {
			return fmt.Errorf("build image %s: %w", kind.name, err)
		}
		digest, err := write(folder, kind.name, r.version, index)
		if err != nil {
			return fmt.Errorf("write image %s: %w", kind.name, err)
		}
		fmt.Fprintf(out, "%s\t%s\n", kind.name, digest)
	}
	return nil
}
