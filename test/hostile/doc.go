// Package hostile is an agent process that does what its prompt says, well or
// badly: it speaks the protocol of each of the three CLIs, and dies, falls
// silent, floods or prints rubbish at a word.
//
// A prompt holds its orders between << and >>, with a semicolon between two;
// the last such block of a prompt counts, since what an agent is told of
// earlier runs stands before it.
//
//	say TEXT            a piece of the answer
//	call TOOL ID ARG    a tool of the host's, with {"of": ARG}, under the agent's own id; says "got RESULT."
//	mcp TOOL ARG        the same over the conversation's MCP server (Codex)
//	print WHAT          what is no message, between two: utf8, nul, rune (a character across byte 200), long, half
//	odd DIR N SEED      N messages of its own protocol out of transcripts in DIR, changed at random
//	text WHAT           a piece of the answer with odd bytes in it: utf8, nul
//	big N               a piece of the answer of N MiB
//	stderr N            N MiB there
//	exit N, kill, stop  its end; stop is SIGSTOP
//	close stdout|stdin  it lives on
//	hang                nothing more, and no answer to anything; deaf to TERM
//	done                the end of the turn, which comes by itself after the last order
package hostile
