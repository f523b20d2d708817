package sdk

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	sdka2a "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"innerd/adapter/a2a"
)

// Legacy serves A2A 0.3 on a server's operations. owner is whose key a request
// was made with; write is after how long a reader that takes nothing is cut.
func Legacy(s *a2a.Server, owner func(context.Context) string, heartbeat, write time.Duration, log *slog.Logger) a2a.Legacy {
	h := &handler{s: s, owner: owner, old: true}
	opts := []a2asrv.TransportOption{
		a2asrv.WithTransportKeepAlive(heartbeat),
		a2asrv.WithTransportPanicHandler(func(v any) error {
			log.Error("panic in an A2A 0.3 handler", "panic", v)
			return sdka2a.ErrInternalError
		}),
	}
	return a2a.Legacy{
		RPC:  timed(typed(a2av0.NewJSONRPCHandler(h, opts...)), write),
		REST: timed(a2av0.NewRESTHandler(h, opts...), write),
	}
}

// typed says what answers of JSON-RPC are: the SDK's handler says it of streams
// alone, and a guess from the first bytes would be plain text.
func typed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		next.ServeHTTP(w, r)
	})
}

// timed sets a deadline for each write, which the SDK's handlers do not.
func timed(next http.Handler, write time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("A2A-Version", "0.3")
		next.ServeHTTP(&timedWriter{w, http.NewResponseController(w), write}, r)
	})
}

type timedWriter struct {
	http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration
}

// Write implements http.ResponseWriter.
func (w *timedWriter) Write(b []byte) (int, error) {
	_ = w.rc.SetWriteDeadline(time.Now().Add(w.limit))
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (w *timedWriter) Flush() { _ = w.rc.Flush() }

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
