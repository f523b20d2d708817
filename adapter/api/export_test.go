package api

// DecodePlain decodes without taking long strings out.
func DecodePlain(body []byte) (*Request, error) {
	r := &Request{}
	if err := r.decode(body); err != nil {
		return nil, err
	}
	return r, nil
}

// NewSmallHollow takes strings out that are not long.
func NewSmallHollow(body []byte) *Hollow { return newHollow(body, 0, 40) }

// KnownEvents reports whether a request may ask for events by that word.
func KnownEvents(word string) bool { return knownEvents(word) }
