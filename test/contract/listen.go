package contract

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Listen compares what is answered over one connection of HTTP/1.1 with the
// document, from copies of what either side says there: so programs that are
// not ours are listened to, whose bytes nothing changes. It returns at the end
// of both copies, which it reads to their ends, and tells how many answers there
// were. An answer that is cut is no fault.
func Listen(client, srv io.Reader, report func(error)) (answers int) {
	var rest sync.WaitGroup
	defer rest.Wait()
	asked := make(chan *http.Request, 1)
	rest.Go(func() { // ends with what the client says
		defer io.Copy(io.Discard, client) //nolint:errcheck // for its writer
		defer close(asked)
		if err := requests(bufio.NewReader(client), asked); !cut(err) {
			report(fmt.Errorf("what the client says: %w", err))
		}
	})
	said := bufio.NewReaderSize(srv, 64<<10) // a head must fit
	answers, err := answered(said, asked, report)
	if !cut(err) {
		report(fmt.Errorf("what the server says: %w", err))
	}
	rest.Go(func() { // ends as the one above
		for range asked { //nolint:revive // nobody hears them any more
		}
	})
	_, _ = io.Copy(io.Discard, said) // for its writer
	return answers
}

// requests reads requests up to the end, which is the error.
func requests(client *bufio.Reader, asked chan<- *http.Request) error {
	for {
		req, err := http.ReadRequest(client)
		if err != nil {
			return err
		}
		asked <- req
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return err
		}
	}
}

// answered reads the answers to requests up to the end, which is the error.
func answered(srv *bufio.Reader, asked <-chan *http.Request, report func(error)) (n int, err error) {
	for {
		if _, err := srv.Peek(1); err != nil {
			return n, err
		}
		req, ok := <-asked
		if !ok {
			return n, errors.New("an answer to nothing")
		}
		resp, err := readHead(srv, req)
		for err == nil && resp.StatusCode < http.StatusOK { // go on, it says
			resp, err = readHead(srv, req)
		}
		if err != nil {
			return n, err
		}
		n++
		check(req, resp, func(err error) { report(unlike(req, err)) })
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return n, err
		}
	}
}

// readHead reads the head of an answer. One that is cut is not one that is
// wrong, which http.ReadResponse takes it for.
func readHead(srv *bufio.Reader, req *http.Request) (*http.Response, error) {
	for n := 1; ; n++ {
		head, err := srv.Peek(n)
		if bytes.HasSuffix(head, []byte("\r\n\r\n")) {
			return http.ReadResponse(srv, req)
		}
		if err != nil {
			return nil, err
		}
	}
}

// cut reports whether an error is the end of a connection, wherever it came.
func cut(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
