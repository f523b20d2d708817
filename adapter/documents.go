package adapter

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"innerd/adapter/published"
)

// documents are the paths of what describes this API.
var documents = map[string]published.Document{
	"/openapi.json":        published.OpenAPI,
	"/schemas/events.json": published.Events,
}

// getDocument gives a document, or says that the caller has it.
func getDocument(d published.Document) handler {
	return func(c *gin.Context) error {
		h := c.Writer.Header()
		h.Set("ETag", d.ETag())
		h.Set("Cache-Control", "private, max-age=300")
		for given := range strings.SplitSeq(c.GetHeader("If-None-Match"), ",") {
			if given = strings.TrimPrefix(strings.TrimSpace(given), "W/"); given == d.ETag() || given == "*" {
				c.Writer.WriteHeader(http.StatusNotModified)
				return nil
			}
		}
		_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(answerTime))
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(d.Body)))
		c.Writer.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(c.Writer, d.Body) // a reader that is gone has no use for the error
		return nil
	}
}
