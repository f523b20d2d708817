package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child that is measured, or measured against.
type process struct {
	cmd *exec.Cmd
	url string
	dir string // innerd's state
}

// roles are what this command does as another process.
var roles = map[string]func(context.Context, []string) error{
	"raw":    rawServer,
	"rawlog": rawLog,
}

// freeAddr is an address of loopback where nobody listens.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// spawnInnerd starts the binary with a new state. It does not wait for it.
func (b *bench) spawnInnerd(ctx context.Context, env ...string) (*process, error) {
	dir, err := b.withWorkspace("innerd-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &process{url: "http://" + addr, dir: filepath.Join(dir, "state")}
	p.cmd = exec.CommandContext(ctx, b.binary, "serve", "--listen", addr, "--auth", "off", "--backend", "simulate",
		"--state-dir", p.dir, "--agent-home", filepath.Join(dir, "home"), "--workspace", workspace(dir), "--log-level", "error")
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	p.cmd.Stderr = os.Stderr
	return p, p.start()
}

// innerd starts the binary with a new state and waits until it is ready.
func (b *bench) innerd(ctx context.Context, env ...string) (*process, error) {
	p, err := b.spawnInnerd(ctx, env...)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, "/ready"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// raw starts the server to measure against.
func (b *bench) raw(ctx context.Context) (*process, error) {
	p, err := b.spawnRaw(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, "/health"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (b *bench) spawnRaw(ctx context.Context) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{url: "http://" + addr}
	p.cmd = exec.CommandContext(ctx, self, "role", "raw", addr)
	p.cmd.Stderr = os.Stderr
	return p, p.start()
}

func (p *process) start() error {
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	return p.cmd.Start()
}

// stop ends the process and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	hard := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer hard.Stop()
	_ = p.cmd.Wait() // how it ends is not what is measured
	if p.dir != "" {
		_ = os.RemoveAll(filepath.Dir(p.dir))
	}
}

// await waits for the first 200 of a path, looking every half millisecond.
func (p *process) await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s%s does not answer: %w", p.url, path, err)
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// memory reads a line of the process's status, VmRSS or VmHWM, in bytes.
func (p *process) memory(line string) (int64, error) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if v, ok := strings.CutPrefix(sc.Text(), line+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(v, "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("no " + line + " in the process's status")
}

// cpu is the processor time that the process has used, in steps of 10 ms.
func (p *process) cpu() time.Duration {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
	if err != nil {
		return 0
	}
	const user, system = 11, 12 // behind the name, which may hold anything
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseInt(fields[user], 10, 64)
	s, _ := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * 10 * time.Millisecond
}

// settled is VmRSS once it has not moved for a while.
func (p *process) settled(ctx context.Context) (int64, error) {
	var last int64
	for range 30 {
		now, err := p.memory("VmRSS")
		if err != nil {
			return 0, err
		}
		if last != 0 && max(now, last)-min(now, last) < 128<<10 {
			return now, nil
		}
		last = now
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return last, nil
}

// post sends JSON and gives the answer, whose body the caller closes.
func post(ctx context.Context, client *http.Client, url string, body any) (*http.Response, error) {
	js, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return postJSON(ctx, client, url, js)
}

// postJSON posts what is encoded already.
func postJSON(ctx context.Context, client *http.Client, url string, js []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(js))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s: %s: %s", url, res.Status, text)
	}
	return res, nil
}

// call posts and throws the answer away.
func call(ctx context.Context, client *http.Client, url string, body any) error {
	res, err := post(ctx, client, url, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}
