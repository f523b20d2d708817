package host

// Fallback is filled in below.
type Fallback struct{}
