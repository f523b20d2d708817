package adapter

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"innerd/adapter/api"
	"innerd/toolbridge"
)

// postToolResult takes a tool's result. An answer that nobody waits for is not
// an error: hosts retry.
func (s *Server) postToolResult(c *gin.Context) error {
	var body api.ToolResult
	if err := s.decode(c, &body); err != nil {
		return err
	}
	domain, err := s.runs(c.Request.Context())
	if err != nil {
		return err
	}
	id := c.Param("id")
	out := api.ToolResultStatus{Status: api.StatusOK, ToolCallID: id}
	switch domain.ToolResult(Owner(c.Request.Context()), id, toolbridge.Result{
		Result: body.Result, Content: body.Content, IsError: body.IsError, Metadata: body.Metadata,
	}) {
	case toolbridge.Accepted:
	case toolbridge.Duplicate:
		out.Duplicate = true
	default:
		out.Status = api.StatusNotFound
	}
	writeJSON(c.Writer, http.StatusOK, out)
	return nil
}
