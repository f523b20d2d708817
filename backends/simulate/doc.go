// Package simulate is an agent without a model, inside the server itself: a
// demonstration, a test double and a load generator. It plays a script that
// comes with the turn, or says back what it was told.
//
// It keeps its sessions as an agent would, so that a test can see what reached
// it, and resumes them after its conversation or the whole server is gone.
//
// # Scripts
//
// A script is a JSON list of steps, in metadata.agent_options.script or in the
// file of --simulate-script. What is unknown or of a wrong type is refused by
// name. A step is an object with one of:
//
//	{"text": s}         a message; also chunk_bytes (else words) and delay_ms between the pieces
//	{"reasoning": s}    a block of reasoning; likewise
//	{"tool": {"name", "input", "output", "exit_code", "ms"}}
//	                    a tool of the agent's own
//	{"call": {"tool", "arguments"}}
//	                    a tool of the host; its result is then said as text
//	{"calls": [ … ]}    several, all open at once
//	{"permission": {"tool", "input", "output", "exit_code", "ms"}}
//	                    a tool of the agent's own that asks first; a denial is said as text
//	{"ask": {"message", "schema"}}
//	                    a question; the answer is then said as text
//	{"usage": { … }}    what the turn used, instead of an estimate; several add up
//	{"sleep_ms": n}
//	{"flood": {"deltas", "bytes", "per_second", "stamp"}}
//	                    deltas of a size (40), at a rate or as fast as they are taken, in messages of at most 1 MiB;
//	                    with "stamp": true each begins with Unix nanoseconds
//	{"retry": {"text", "reasoning", "reason", "error_type", "wait_ms", "attempts"}}
//	                    half a message, or half of the reasoning before it, taken back, then said whole;
//	                    also chunk_bytes and delay_ms
//	{"cut": {"text"}}   the same, each time, until the model is given up
//	{"refused": true}   the model's address refuses connections
//	{"error": {"message", "error_type", "status", "retry_after_s"}}
//	                    the model fails; the conversation goes on
//	{"stall": true}     nothing, until the turn is canceled
//	{"empty": true}     the end of the turn
//	{"crash": {"exit_code", "stderr"}}
//	                    a real child that dies, and the conversation with it
//	{"repeat": n, "steps": [ … ]}
//	{"finish": word}    why the turn ends: end_turn, max_tokens, refusal, stop_sequence; before the last message
//	{"native": {"tool", "input"}}
//	                    a tool of the agent's own that asks first and does nothing
//	{"change": {"kind", "path", "to", "text", "old", "new"}}
//	                    a real file in the working directory, or one added to it, is made (create), changed (edit: old becomes new), deleted, moved
//	{"subagent": {"task", "command", "output", "text"}}
//	                    another agent that runs the command and says the text
//	{"background": {"command", "ms"}}, {"background": {"done": true}}
//	                    work that takes its time while the turn goes on; the turn waits for it, where the host says so
//	{"compact": {"summary"}}
//	                    a summary takes the place of all that was told
//	{"output": v}       the JSON of v as the answer
//	{"next": true}, {"full": true}
//	                    nothing: the model's answer ends here; its context is nearly full
//	{"told": true}      says as JSON all that the session was told and has said (see Told)
package simulate
