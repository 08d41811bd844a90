package kubelet

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Both protocols between kubectl and the API server, which speaks SPDY to a kubelet.
func TestExec(t *testing.T) {
	c := newCluster(t)
	c.serve(t, "web")
	for _, websockets := range []string{"true", "false"} {
		t.Run("websockets="+websockets, func(t *testing.T) {
			t.Setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
			c.says(t, "a b\n", "exec", "web", "-c", "main", "--", "echo", "a b")
			if out, code := c.kubectl(t, "", "exec", "web", "-c", "main", "--", "sh", "-c",
				"echo out; echo err >&2; exit 7"); code != 7 || !strings.Contains(out, "out\n") || !strings.Contains(out, "err\n") {
				t.Errorf("a command that fails: exit %d, %q", code, out)
			}
			if out, code := c.kubectl(t, "to and fro", "exec", "-i", "web", "-c", "main", "--", "cat"); code != 0 ||
				out != "to and fro" {
				t.Errorf("cat: exit %d, %q", code, out)
			}
			c.refuses(t, "no-such-program", "exec", "web", "-c", "main", "--", "no-such-program")
		})
	}
	c.refuses(t, "container nobody is not valid", "exec", "web", "-c", "nobody", "--", "true")
}

// A megabyte each way: nothing is lost at the end of a stream.
func TestExecCarriesMuch(t *testing.T) {
	c := newCluster(t)
	c.serve(t, "web")
	much := strings.Repeat("0123456789abcdef", 1<<16)
	cmd := c.command(t, "exec", "-i", "web", "-c", "main", "--", "cat")
	cmd.Stdin = strings.NewReader(much)
	out, err := cmd.Output()
	if err != nil || string(out) != much {
		t.Errorf("%d of %d bytes came back, %v", len(out), len(much), err)
	}
}

// With -it the command has a terminal of the client's size.
func TestExecWithTerminal(t *testing.T) {
	c := newCluster(t)
	c.serve(t, "web")
	us, them, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer us.Close()
	if err := unix.IoctlSetWinsize(int(us.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 111}); err != nil {
		t.Fatal(err)
	}
	cmd := c.command(t, "exec", "-it", "web", "-c", "main", "--", "sh", "-c",
		"stty size; read line; echo you said $line; exit 3")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = them, them, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = them.Close()
	lines := bufio.NewReader(us)
	if line, err := lines.ReadString('\n'); strings.TrimSpace(line) != "33 111" {
		t.Fatalf("the terminal is %q (%v), want 33 111", line, err)
	}
	if _, err := io.WriteString(us, "hello\r"); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(lines) // ends with EIO
	if !bytes.Contains(rest, []byte("you said hello")) {
		t.Errorf("the shell said %q", rest)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("exit %d, want 3", cmd.ProcessState.ExitCode())
	}
}

func TestAttach(t *testing.T) {
	c := newCluster(t)
	c.serve(t, "web")
	if out, code := c.kubectl(t, "hello\n", "attach", "-i", "web", "-c", "main"); code != 0 ||
		!strings.Contains(out, "attached\nhello\n") {
		t.Errorf("attach: exit %d, %q", code, out)
	}
}

func TestPortForward(t *testing.T) {
	c := newCluster(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "you asked for "+r.URL.Path)
	}))
	defer web.Close()
	c.web = strings.TrimPrefix(web.URL, "http://")
	c.serve(t, "web")
	for _, websockets := range []string{"true", "false"} {
		t.Run("websockets="+websockets, func(t *testing.T) {
			t.Setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
			cmd := c.command(t, "port-forward", "web", ":80", ":81")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var complaints bytes.Buffer
			cmd.Stderr = &complaints
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			addresses := map[string]string{} // by the pod's port
			for lines := bufio.NewScanner(out); len(addresses) < 2 && lines.Scan(); {
				if f := strings.Fields(lines.Text()); len(f) == 5 && strings.HasPrefix(f[2], "127.0.0.1:") {
					addresses[f[4]] = f[2]
				}
			}
			for _, path := range []string{"/one", "/two"} {
				r, err := http.Get("http://" + addresses["80"] + path)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err != nil || string(body) != "you asked for "+path {
					t.Errorf("%s: %q, %v", path, body, err)
				}
			}
			if _, err := http.Get("http://" + addresses["81"]); err == nil {
				t.Error("a port that nobody listens on answered")
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
			if !strings.Contains(complaints.String(), "listens on no port 81") {
				t.Errorf("kubectl does not say why: %q", complaints.String())
			}
		})
	}
}
