package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Between these lines docs/operations.md holds what is made from the tables.
const (
	docsBegin = "<!-- defaults: made by `innerd docs defaults --write docs/operations.md` -->"
	docsEnd   = "<!-- end of defaults -->"
)

// docsCmd writes the parts of the docs that are made from the code.
func (a *app) docsCmd() *cobra.Command {
	docs := &cobra.Command{Use: "docs", Short: "Make parts of the documentation", Hidden: true}
	var write string
	defaults := &cobra.Command{
		Use:   "defaults",
		Short: "The table of settings in docs/operations.md",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if write == "" {
				_, err := fmt.Fprint(a.out, settingsTable())
				return err
			}
			old, err := os.ReadFile(write)
			if err != nil {
				return err
			}
			text, err := replaceBetween(old, settingsTable())
			if err != nil {
				return fmt.Errorf("%s: %w", write, err)
			}
			return os.WriteFile(write, text, 0o644)
		},
	}
	defaults.Flags().StringVar(&write, "write", "", "replace it in this file")
	docs.AddCommand(defaults)
	return docs
}

// settingsTable is the settings of serve as Markdown, a table for each group.
func settingsTable() string {
	var b strings.Builder
	group := ""
	for _, s := range serveSettings() {
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "\n### %s\n\n| Flag | Variables | Default | What |\n|---|---|---|---|\n", group)
		}
		vars := []string{"`" + s.env() + "`"}
		for _, f := range s.field {
			vars = append(vars, "`"+f+"`")
		}
		def := s.note
		if def == "" && s.def != "" {
			def = "`" + s.def + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", s.flag, strings.Join(vars, ", "), def, s.help)
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func replaceBetween(text []byte, table string) ([]byte, error) {
	begin := bytes.Index(text, []byte(docsBegin))
	end := bytes.Index(text, []byte(docsEnd))
	if begin < 0 || end < begin {
		return nil, errors.New("the marks of the table are missing")
	}
	begin += len(docsBegin)
	return bytes.Join([][]byte{text[:begin], []byte("\n\n" + table + "\n"), text[end:]}, nil), nil
}
