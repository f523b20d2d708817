package claudecode

// trace tells an agent that works for one run alone its place in the run's
// trace, in the variables that OpenTelemetry names, unless the host's own say
// something else. Its children get them too.
func (c *conversation) trace(env map[string]string) {
	for name, v := range map[string]string{"TRACEPARENT": c.cfg.Traceparent, "TRACESTATE": c.cfg.Tracestate} {
		if _, given := env[name]; v != "" && !given {
			env[name] = v
		}
	}
}
