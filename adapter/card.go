package adapter

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"innerd/events"
)

// profileBinding names the host-loop profile as a protocol binding.
const profileBinding = "urn:innerd:host-loop:v1"

// getCard is the A2A card: who this is and how to talk to it.
func (s *Server) getCard(c *gin.Context) error {
	type object = map[string]any
	card := object{
		"name":        "innerd",
		"description": "Coding agents in this sandbox behind one stream of events.",
		"version":     s.opt.Version,
		"supportedInterfaces": []object{{
			"url": baseURL(c.Request), "protocolBinding": profileBinding, "protocolVersion": "1.0",
		}},
		"capabilities": object{
			"streaming": true, "pushNotifications": false,
			"extensions": []object{
				{"uri": events.ReasoningExtension, "description": "Reasoning of the agent", "required": false},
				{"uri": events.TelemetryExtension, "description": "Calls of the agent's own tools", "required": false},
			},
		},
		"defaultInputModes":  []string{"text/plain"},
		"defaultOutputModes": []string{"text/plain"},
		"skills": []object{{
			"id": "coding", "name": "Coding", "description": "Reads, writes and runs code in the sandbox's workspace.",
			"tags": []string{"coding", "agent"},
		}},
	}
	if !s.opt.Open {
		card["securitySchemes"] = object{"bearer": object{"httpAuthSecurityScheme": object{"scheme": "Bearer"}}}
		card["securityRequirements"] = []object{{"schemes": object{"bearer": object{"list": []string{}}}}}
	}
	c.Header("Cache-Control", "max-age=60")
	writeJSON(c.Writer, http.StatusOK, card)
	return nil
}

// baseURL is where the caller reached the server: the sandbox does not know
// its own outside name.
func baseURL(r *http.Request) string {
	scheme, host := "http", r.Host
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	if h := r.Header.Get("X-Forwarded-Host"); h != "" {
		host = h
	}
	return scheme + "://" + host + "/"
}
