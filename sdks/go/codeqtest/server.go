package codeqtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is `codeq dev` on a free port.
type Server struct {
	URL, Token string
	t          testing.TB
}

// Start starts a server that keeps nothing and ends with the test. The binary is CODEQ_BIN, or codeq on the PATH; more
// arguments, such as "--test-clock", are passed on.
func Start(t testing.TB, arguments ...string) *Server {
	t.Helper()
	binary := os.Getenv("CODEQ_BIN")
	if binary == "" {
		binary = "codeq"
	}
	if len(arguments) == 0 {
		arguments = []string{"--memory"}
	}
	command := exec.Command(binary, append([]string{"dev", "--port", "0"}, arguments...)...)
	command.Dir = t.TempDir()
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("codeqtest: %v (set CODEQ_BIN, or install codeq-cli)", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			// Whatever it says from now on must not fill the pipe.
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return &Server{URL: strings.TrimSpace(url), Token: "dev-token", t: t}
		}
	}
	t.Fatalf("codeqtest: %s did not start; run it to see why", strings.Join(command.Args, " "))
	return nil
}

// Advance moves the clock of a server with "--test-clock" and waits until everything that fell due has happened.
func (s *Server) Advance(span time.Duration) {
	s.t.Helper()
	body, _ := json.Marshal(map[string]int64{"advanceSeconds": int64(span.Seconds())})
	request, err := http.NewRequest(http.MethodPost, s.URL+"/v1/codeq/test/clock", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.Token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(response.Body)
		s.t.Fatalf("codeqtest: the clock did not move: %d %s", response.StatusCode, said)
	}
}
