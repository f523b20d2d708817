package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker in releases.
var version string

// versionString is the version of this build, by the best that is known of it.
func versionString() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	v, rev, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	switch {
	case v != "" && v != "(devel)":
		return v
	case rev != "":
		return "dev-" + rev + dirty
	}
	return "dev"
}

// versionLine is what --version and the command say.
func versionLine() string {
	return fmt.Sprintf("%s %s %s/%s", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, "innerd", versionLine())
			return err
		},
	}
}
