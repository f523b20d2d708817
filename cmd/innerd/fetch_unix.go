//go:build linux || darwin

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"innerd/adapter/netguard"
	"innerd/events"
)

const fetchTimeout = 30 * time.Second

// fetcher loads attachments that a host names by URL. Addresses that are not
// public are refused, whatever name or redirect leads there, but for hosts that
// are allowed by name: a prompt must not reach what only this machine can.
type fetcher struct {
	guard  *netguard.Guard
	client *http.Client
	max    int64
}

// fetchRedirects is how many redirects are followed.
const fetchRedirects = 10

func newFetcher(allow []string, maxBytes int64) *fetcher {
	g := netguard.New(allow, "--fetch-allow")
	return &fetcher{guard: g, client: g.Client(fetchTimeout, fetchRedirects), max: maxBytes}
}

// part loads a part's URL: what comes back has Data in its place.
func (f *fetcher) part(ctx context.Context, p events.Part) (events.Part, error) {
	if _, err := f.guard.Check(ctx, p.URL); err != nil {
		return p, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return p, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		var bare *url.Error
		if errors.As(err, &bare) {
			err = bare.Err // without the URL, whose query may be a key
		}
		return p, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return p, fmt.Errorf("the answer is %s", resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, f.max+1))
	if err != nil {
		return p, err
	}
	if int64(len(data)) > f.max {
		return p, fmt.Errorf("longer than %d bytes", f.max)
	}
	p.URL, p.Data = "", base64.StdEncoding.EncodeToString(data)
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && (p.MimeType == "" || f.better(t, p.Type)) {
		p.MimeType = t
	}
	return p, nil
}

// better reports whether the server's type of the bytes fits the kind of part,
// so that it is believed rather than the default of that kind.
func (f *fetcher) better(mimeType, kind string) bool {
	return strings.HasPrefix(mimeType, kind+"/")
}
