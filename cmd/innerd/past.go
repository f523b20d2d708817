package main

import (
	"context"

	"innerd/adapter/api"
	"innerd/host"
)

// past is what was said in a conversation so far, as its newest run on the
// server has it: what that one was sent, and what it said. A host sends the
// whole history with every turn, so that the server can tell whether the agent
// still knows it.
func past(ctx context.Context, c *host.Client, conversation string) ([]api.Message, error) {
	if conversation == "" || conversation == "default" {
		return nil, nil
	}
	page, err := c.Tasks(ctx, host.TaskQuery{ContextID: conversation, PageSize: 1})
	if err != nil || len(page.Tasks) == 0 {
		return nil, err
	}
	last, err := c.Task(ctx, page.Tasks[0].ID) // lists show runs in brief
	if err != nil {
		return nil, err
	}
	var said []api.Message
	for _, h := range last.History {
		said = append(said, api.Message{Role: h.Role, Content: h.Content})
	}
	for _, artifact := range last.Artifacts {
		for _, part := range artifact.Parts {
			said = append(said, api.AssistantText(part.Text))
		}
	}
	return said, nil
}
