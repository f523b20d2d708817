//go:build linux

package parity_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/server"
)

// The row's other half is a test process in a network namespace of its own:
// server, agent and model see each other there over loopback. All other
// addresses lead to loopback too, so that whatever is tried is seen.
const (
	insideEnv      = "INNERD_PARITY_INSIDE" // the binary
	insideAgentEnv = "INNERD_PARITY_AGENT"
)

// noTraffic: not one packet, not one question for a name, to anywhere else.
func noTraffic(w *world) {
	cmd := exec.CommandContext(w.Context(), os.Args[0], "-test.run=^TestInside$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), insideEnv+"="+innerd, insideAgentEnv+"="+w.a.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		w.Fatalf("no network namespace can be made (%v): run the tests as root, or allow user namespaces", err)
	}
	if err != nil {
		w.Errorf("%v\n%s", err, out)
	}
}

// TestInside is what runs in the namespace; elsewhere there is nothing to do.
func TestInside(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		return
	}
	i := slices.IndexFunc(agentsOf(t), func(a *agent) bool { return a.name == os.Getenv(insideAgentEnv) })
	a := agentsOf(t)[i]
	watch := watchLoopback(t)
	w := &world{T: t, a: a}
	w.alone()
	k := w.talk(obj{"cwd": w.githubRepository()})
	p := k.post("ask-marker-1", tools("look"), shell("echo native", "native"), call("look", obj{}), say("say-marker-1"))
	w.s.Result(server.Until[events.ToolRequest](p, 1).ToolCallID, obj{"result": "found"})
	k.heardBack(p.Completed())
	k.run("ask-marker-2", nil, say("say-marker-2"))
	if os.Getenv(backendtest.LongEnv) != "" {
		time.Sleep(40 * time.Second) // what agents report they report late
	}
	w.s.Stop()
	if seen := watch.seen(); len(seen) > 0 {
		t.Errorf("there was traffic to the outside: %v", seen)
	}
	// That the watch sees what there is.
	server.Eventually(t, "the watch sees a connection", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // nobody answers
		defer cancel()
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "192.0.2.7:443"); err == nil {
			_ = conn.Close()
		}
		return slices.ContainsFunc(watch.seen(), func(s string) bool { return s == "tcp 192.0.2.7:443" })
	})
}

// githubRepository is a repository with a remote that agents like to ask about.
func (w *world) githubRepository() string {
	dir := w.folder(map[string]string{"main.go": "package main\n"})
	for _, args := range [][]string{{"init", "-q"}, {"remote", "add", "origin", "https://github.com/example/example.git"}} {
		cmd := exec.CommandContext(w.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			w.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return filepath.Clean(dir)
}

// watch collects where packets go that are not for loopback, and questions for
// names wherever they go.
type watch struct {
	mu  sync.Mutex
	got []string
}

func (w *watch) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

// watchLoopback brings the namespace's loopback up, leads all addresses to it,
// and watches it until the test ends.
func watchLoopback(t *testing.T) *watch {
	t.Helper()
	lo, err := net.InterfaceByName("lo")
	if err == nil {
		err = up("lo")
	}
	if err == nil {
		err = routeAll(unix.AF_INET, lo.Index)
	}
	if err != nil {
		t.Fatalf("loopback cannot be set up: %v", err)
	}
	_ = routeAll(unix.AF_INET6, lo.Index) // there may be no IPv6
	all := uint16(unix.ETH_P_ALL)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all<<8|all>>8))
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: lo.Index})
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	}
	if err != nil {
		t.Fatalf("loopback cannot be watched: %v", err)
	}
	w, stop, ended := &watch{}, make(chan struct{}), make(chan struct{})
	go func() { // ends when the test does
		defer close(ended)
		buf := make([]byte, 1<<16)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if n, _, err := unix.Recvfrom(fd, buf, 0); err == nil {
				w.packet(buf[:n])
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
		_ = unix.Close(fd)
	})
	return w
}

// packet notes an IP packet that is of interest.
func (w *watch) packet(p []byte) {
	var to netip.Addr
	var proto byte
	var rest []byte
	switch {
	case len(p) >= 20 && p[0]>>4 == 4 && len(p) >= int(p[0]&15)*4:
		to, proto, rest = netip.AddrFrom4([4]byte(p[16:20])), p[9], p[int(p[0]&15)*4:]
	case len(p) >= 40 && p[0]>>4 == 6:
		to, proto, rest = netip.AddrFrom16([16]byte(p[24:40])), p[6], p[40:]
	default:
		return
	}
	name := map[byte]string{1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6"}[proto]
	port := uint16(0)
	if (proto == 6 || proto == 17) && len(rest) >= 4 {
		port = binary.BigEndian.Uint16(rest[2:4])
	}
	if proto == 58 || to.IsLoopback() && port != 53 { // neighbour discovery
		return
	}
	s := fmt.Sprintf("%s %s", name, netip.AddrPortFrom(to, port))
	if port == 53 && proto == 17 && len(rest) > 20 {
		s += fmt.Sprintf(" for %q", rest[20:min(len(rest), 80)])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.got, s) {
		w.got = append(w.got, s)
	}
}

func up(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only asked with
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// routeAll makes every address of a family one of this host's own, as
// `ip route add local default dev lo` does.
func routeAll(family byte, index int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only asked with
	msg := struct {
		unix.NlMsghdr
		unix.RtMsg
		unix.RtAttr
		index uint32
	}{
		NlMsghdr: unix.NlMsghdr{Type: unix.RTM_NEWROUTE, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE, Seq: 1},
		RtMsg:    unix.RtMsg{Family: family, Table: unix.RT_TABLE_LOCAL, Protocol: unix.RTPROT_BOOT, Scope: unix.RT_SCOPE_HOST, Type: unix.RTN_LOCAL},
		RtAttr:   unix.RtAttr{Len: 8, Type: unix.RTA_OIF},
		index:    uint32(index),
	}
	msg.NlMsghdr.Len = uint32(unsafe.Sizeof(msg))
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&msg)), unsafe.Sizeof(msg))
	if err := unix.Sendto(fd, raw, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return err
	}
	if n < 20 {
		return errors.New("netlink: a short answer")
	}
	if code := int32(binary.NativeEndian.Uint32(buf[16:20])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}
