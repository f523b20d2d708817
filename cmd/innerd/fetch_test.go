//go:build linux || darwin

package main

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"innerd/events"
)

func TestFetch(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/a.jpg", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/jpeg")
		_, _ = w.Write([]byte("bytes"))
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/a.jpg", http.StatusFound) })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	image := func(path string) events.Part {
		return events.Part{Type: events.PartImage, URL: srv.URL + path, MimeType: "image/png"}
	}

	f := newFetcher([]string{"127.0.0.1"}, 1000)
	for _, path := range []string{"/a.jpg", "/moved"} {
		p, err := f.part(t.Context(), image(path))
		if err != nil || p.Data != base64.StdEncoding.EncodeToString([]byte("bytes")) || p.MimeType != "image/jpeg" || p.URL != "" {
			t.Errorf("%s: %+v %v", path, p, err)
		}
	}
	for path, want := range map[string]string{"/long": "longer than 1000", "/none": "404"} {
		if _, err := f.part(t.Context(), image(path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := newFetcher(nil, 1000).part(t.Context(), image("/a.jpg")); err == nil || !strings.Contains(err.Error(), "--fetch-allow") {
		t.Errorf("a private address was fetched: %v", err)
	}
	if _, err := f.part(t.Context(), events.Part{URL: "file:///etc/passwd"}); err == nil {
		t.Error("a file was fetched")
	}
}
