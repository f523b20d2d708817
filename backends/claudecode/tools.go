package claudecode

import (
	"context"
	"slices"
	"time"

	"innerd/backends"
)

func (p *process) tellLocked(ts *toolset) {
	for i, t := range ts.tools {
		p.told[ts.names[i]] = t.Description
	}
}

// outdated reports whether the process cannot take the tools any more: claude
// keeps what a tool was first described by as long as it lives.
func (p *process) outdated(tools []backends.Tool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, name := range newToolset(tools).names {
		if old, ok := p.told[name]; ok && old != tools[i].Description {
			return true
		}
	}
	return false
}

// withdrawn are the tools that claude was told of and that are gone, under its
// own names. It goes on to offer them, unless they are denied.
func (p *process) withdrawn() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []string{}
	for name := range p.told {
		if _, there := p.tools.byNam[name]; !there {
			out = append(out, mcpPrefix+name)
		}
	}
	slices.Sort(out)
	return out
}

// setTools gives claude another list of tools and waits until it has it.
func (p *process) setTools(ctx context.Context, tools []backends.Tool) error {
	p.mu.Lock()
	same := sameTools(p.tools.tools, tools)
	listed := make(chan struct{})
	change := any(toolsChanged())
	if !p.serves {
		change = serverAdded()
	}
	if !same {
		p.tools, p.listed, p.serves = newToolset(tools), listed, true
		p.tellLocked(p.tools)
	}
	p.mu.Unlock()
	if same {
		return nil
	}
	if _, err := p.ask(change, nil); err != nil {
		return err
	}
	late := time.NewTimer(listLimit)
	defer late.Stop()
	select {
	case <-listed:
	case <-p.child.Done():
		return errEnded
	case <-late.C:
		p.log.Warn("claude did not fetch the changed tools in time")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
