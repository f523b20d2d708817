package copilot

// ofTurn are the types of what a turn says and does. The others are of the
// session, or tell how far it is.
var ofTurn = set(
	evUser, evTurnStart, evTurnEnd, evTurnRetry, evReasoningPart, evReasoning, evMessageStart, evMessagePart, evMessage, evUsage,
	evCallFailure, evToolStart, evToolPartial, evShellOutput, evToolComplete, evPermission, evExternal, evTodos, evNotification,
)

// late reports whether an event is of a turn that has ended: events name none,
// but copilot begins with an input before anything comes of it, and with a
// sub-agent too. One that a canceled turn has left may be given something to do
// in the next: it has an input of its own then.
func (t *turn) late(e *event) bool {
	switch {
	case e.AgentID != "":
		return t.tr.agents[e.AgentID] == nil && (e.Type != evSubStart && e.Type != evUser || !t.begun)
	case e.Type == evUser:
		return t.c.ended.Has(e.Data.MessageID)
	case !ofTurn[e.Type]:
		return false
	case !t.begun:
		t.c.ended.Add(e.Data.MessageID, e.Data.ReasoningID) // nor is what follows of it
		return true
	}
	return t.c.ended.Has(e.Data.MessageID) || t.c.ended.Has(e.Data.ReasoningID)
}

// ids are those of what the turn may yet say more of, or begin with, when it
// has ended.
func (t *turn) ids() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.in.left(), t.tr.streams)
	for id := range t.tr.thought {
		all = append(all, id)
	}
	return all
}
