package api

import "strings"

// Steer is the body of /tasks/{id}:steer: a text, or messages of the user as a
// request has them.
type Steer struct {
	Text     string    `json:"text,omitempty"`
	Messages []Message `json:"messages,omitempty"`
}

// decode leaves the input in Messages, whichever way it came. Messages of
// others than the user are nothing that could be said to an agent at work.
func (s *Steer) decode(o object) (err error) {
	if s.Text, err = o.string("text"); err != nil {
		return err
	}
	in, err := decodeMessages(o.present("messages"))
	if err != nil {
		return err
	}
	if strings.TrimSpace(s.Text) != "" {
		s.Messages = append(s.Messages, Message{Role: RoleUser, Content: s.Text})
	}
	for _, m := range in {
		if m.Role == RoleUser {
			s.Messages = append(s.Messages, m)
		}
	}
	if len(s.Messages) == 0 {
		return fieldErr("text", "is missing, and there is no message of the user in messages")
	}
	return nil
}
