package toolbridge

// mcpRoad is the second road to the bridge.
type mcpRoad struct{}
