package adapter

import "innerd/runs"

// SpecOf is the run that a body of /message:stream asks for. Bindings that
// speak otherwise put their requests in these words, so that a setting means
// the same wherever it comes from. A *api.FieldError names what is wrong.
func SpecOf(body []byte) (runs.Spec, error) {
	_, spec, err := decodeSpec(body)
	return spec, err
}
