package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Between these lines docs/operations.md and docs/observability.md hold what
// is made from the tables.
const (
	docsBegin    = "<!-- defaults: made by `innerd docs defaults --write docs/operations.md` -->"
	docsEnd      = "<!-- end of defaults -->"
	metricsBegin = "<!-- metrics: made by `innerd docs metrics --write docs/observability.md` -->"
	metricsEnd   = "<!-- end of metrics -->"
)

// docsCmd writes the parts of the docs that are made from the code.
func (a *app) docsCmd() *cobra.Command {
	docs := &cobra.Command{Use: "docs", Short: "Make parts of the documentation", Hidden: true}
	docs.AddCommand(
		a.docsPart("defaults", "The table of settings in docs/operations.md", docsBegin, docsEnd, settingsTable),
		a.docsPart("metrics", "The table of metrics in docs/observability.md", metricsBegin, metricsEnd, metricsTable),
	)
	return docs
}

// docsPart prints a table, or puts it into a file between its marks.
func (a *app) docsPart(use, short, begin, end string, table func() string) *cobra.Command {
	var write string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if write == "" {
				_, err := fmt.Fprint(a.out, table())
				return err
			}
			old, err := os.ReadFile(write)
			if err != nil {
				return err
			}
			text, err := replaceBetween(old, begin, end, table())
			if err != nil {
				return fmt.Errorf("%s: %w", write, err)
			}
			return os.WriteFile(write, text, 0o644)
		},
	}
	cmd.Flags().StringVar(&write, "write", "", "replace it in this file")
	return cmd
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

func replaceBetween(text []byte, from, to, table string) ([]byte, error) {
	begin := bytes.Index(text, []byte(from))
	end := bytes.Index(text, []byte(to))
	if begin < 0 || end < begin {
		return nil, errors.New("the marks of the table are missing")
	}
	begin += len(from)
	return bytes.Join([][]byte{text[:begin], []byte("\n\n" + table + "\n"), text[end:]}, nil), nil
}
