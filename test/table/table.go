// Package table makes docs/agents.md: what is written by hand about each
// agent, and the table of what each of them can do, from what the conformance
// suite and test/parity have found.
package table

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"innerd/backends/backendtest"
)

//go:embed agents.md.tmpl
var page string

// Agent is a column.
type Agent struct {
	Name  string // as hosts choose it
	Title string
	Room  string // of its backend, with its table file
}

// Agents are the columns, in their order.
func Agents() []Agent {
	return []Agent{
		{"claude-code", "Claude Code", "claudecode"},
		{"codex", "Codex", "codex"},
		{"copilot", "Copilot", "copilot"},
		{"simulate", "simulate", "simulate"},
	}
}

// Found is what was found out about one agent, by the name of what was tried.
type Found map[string]string

// Read reads the table files of an agent in a clone of the module. What is not
// there was not tried.
func Read(root string, a Agent) (Found, error) {
	out := Found{}
	for _, path := range []string{
		filepath.Join(root, "backends", a.Room, "testdata", "table.json"),
		filepath.Join(root, "test", "parity", "testdata", "table-"+a.Name+".json"),
	} {
		r, err := backendtest.ReadResults(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if r.Agent != a.Name {
			return nil, fmt.Errorf("%s is of %q, not of %q", path, r.Agent, a.Name)
		}
		for _, m := range []map[string]string{r.Results, r.Long} {
			for name, result := range m {
				out[name] = result
			}
		}
	}
	return out, nil
}

// Cell is what a row says of an agent.
type Cell struct {
	Works bool
	// Missing are parts that were not tried: then nothing is said.
	Missing []string
	// Reasons are why it does not work, or what it works but for.
	Reasons []string
}

// CellOf is the cell of a row for an agent.
func CellOf(r backendtest.Row, f Found) Cell {
	var c Cell
	for _, name := range slices.Concat(r.Cases, r.HTTP) {
		result, ok := f[name]
		why, no := strings.CutPrefix(result, backendtest.No)
		but, partly := strings.CutPrefix(result, backendtest.Partly)
		switch {
		case !ok:
			c.Missing = append(c.Missing, name)
		case no:
			c.reason(why)
		case partly:
			c.Works = true
			c.reason(but)
		default:
			c.Works = true
		}
	}
	return c
}

func (c *Cell) reason(s string) {
	if !slices.Contains(c.Reasons, s) {
		c.Reasons = append(c.Reasons, s)
	}
}

// mark is the cell as it stands in the table, before its notes.
func (c Cell) mark() string {
	switch {
	case len(c.Missing) > 0:
		return "?"
	case c.Works:
		return "✓"
	}
	return "–"
}

// Page is docs/agents.md as it must be.
func Page(root string) (string, error) {
	var found []Found
	for _, a := range Agents() {
		f, err := Read(root, a)
		if err != nil {
			return "", err
		}
		found = append(found, f)
	}
	versions, err := Versions(root)
	if err != nil {
		return "", err
	}
	t, err := template.New("agents.md").Parse(page)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, map[string]any{"Table": Render(found), "Versions": versions})
	return out.String(), err
}

// Versions are the pinned ones of the agents, by name.
func Versions(root string) (map[string]string, error) {
	raw, err := os.ReadFile(filepath.Join(root, "image", "agents.list"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] != "#" {
			out[f[0]] = f[1]
		}
	}
	return out, nil
}

// Render is the table of all rows with its notes.
func Render(found []Found) string {
	var out strings.Builder
	var n notes
	group := ""
	for _, r := range backendtest.Rows() {
		if r.Group != group {
			group = r.Group
			header(&out, group)
		}
		fmt.Fprintf(&out, "| %s |", r.Title)
		for i, a := range Agents() {
			c := CellOf(r, found[i])
			fmt.Fprintf(&out, " %s%s |", c.mark(), n.note(a, c))
		}
		out.WriteString("\n")
	}
	return strings.TrimPrefix(out.String(), "\n") + "\n" + n.String()
}

// notes are the reasons below the table, each once, with whom it holds for.
type notes []footnote

type footnote struct {
	text   string
	agents []string
}

// note is what stands after a mark; "" is nothing.
func (n *notes) note(a Agent, c Cell) string {
	if len(c.Reasons) == 0 || len(c.Missing) > 0 {
		return ""
	}
	text := strings.Join(c.Reasons, "; ")
	i := slices.IndexFunc(*n, func(f footnote) bool { return f.text == text })
	if i < 0 {
		i = len(*n)
		*n = append(*n, footnote{text: text})
	}
	if f := &(*n)[i]; !slices.Contains(f.agents, a.Title) {
		f.agents = append(f.agents, a.Title)
	}
	return fmt.Sprintf(" [^%d]", i+1)
}

func (n notes) String() string {
	var out strings.Builder
	for i, f := range n {
		fmt.Fprintf(&out, "[^%d]: %s: %s.\n", i+1, strings.Join(f.agents, ", "), f.text)
	}
	return out.String()
}

func header(out *strings.Builder, group string) {
	fmt.Fprintf(out, "\n| %s |", group)
	for _, a := range Agents() {
		fmt.Fprintf(out, " %s |", a.Title)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat(":-:|", len(Agents())))
}

// Missing lists, for an agent, what was not tried.
func Missing(f Found) (out []string) {
	for _, r := range backendtest.Rows() {
		out = append(out, CellOf(r, f).Missing...)
	}
	return out
}
