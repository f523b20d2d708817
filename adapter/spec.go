package adapter

import (
	"innerd/adapter/api"
	"innerd/runs"
)

// SpecOf is the run that a body of /message:stream asks for. Bindings that
// speak otherwise put their requests in these words, so that a setting means
// the same wherever it comes from. A *api.FieldError names what is wrong.
func SpecOf(body []byte) (runs.Spec, error) {
	req, err := api.DecodeRequest(body)
	if err != nil {
		return runs.Spec{}, badBody(err)
	}
	return specOf(req, body)
}
