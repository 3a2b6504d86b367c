// A whole harness in Go, written from docs/protocol.md: the standard library alone.
//
//	go run .      `memory-sidecar` must be on the PATH; MEMORY_SIDECAR names another command
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

type object = map[string]any

// Error is what the sidecar answered in place of a result.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

type answer struct {
	ID     *int64
	Result json.RawMessage
	Error  *Error
}

// Memory is a launched sidecar. Any goroutine may use it.
type Memory struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	meta    object // what each request carries: the revision of MCP, and the ticket
	closed  chan struct{}

	writing sync.Mutex // apart from mutex, so that answers are read while a long request is written
	mutex   sync.Mutex
	waiting map[int64]chan answer
	last    int64
	ended   error // why no answer comes any more
}

// Launch starts the command, which is `memory-sidecar serve` and its options, and opens a run in it.
func Launch(ctx context.Context, command []string, run string) (*Memory, *Run, error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return nil, nil, err
	}
	token := base64.RawURLEncoding.EncodeToString(random)
	place, err := os.MkdirTemp("", "memory-sidecar-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(place) // the process has answered or ended by then
	ticket := filepath.Join(place, "ticket")
	if err := os.WriteFile(ticket, []byte(token), 0o600); err != nil {
		return nil, nil, err
	}
	memory := &Memory{
		command: exec.Command(command[0], command[1:]...),
		meta: object{
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": object{
				"extensions": object{"memory-sidecar/harness": object{"ticket": token, "default_run": false}},
			},
		},
		closed:  make(chan struct{}),
		waiting: map[int64]chan answer{},
	}
	memory.command.Env = append(os.Environ(), "MEMORY_SIDECAR_TICKET="+ticket)
	memory.command.Stderr = os.Stderr
	memory.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for the harness
	if memory.stdin, err = memory.command.StdinPipe(); err != nil {
		return nil, nil, err
	}
	stdout, err := memory.command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := memory.command.Start(); err != nil {
		return nil, nil, fmt.Errorf("the memory sidecar cannot run: %w", err)
	}
	go memory.read(stdout)
	opened, err := memory.Open(ctx, run)
	if err != nil {
		memory.Close()
		return nil, nil, err
	}
	return memory, opened, nil
}

func (m *Memory) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout) // not a Scanner, which gives up on long lines
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var got answer
		if json.Unmarshal(line, &got) != nil {
			continue
		}
		if got.ID == nil { // it could not read one of those that wait
			m.end(fmt.Errorf("the memory sidecar could not read a request: %w", got.Error))
			continue
		}
		m.mutex.Lock()
		waiter := m.waiting[*got.ID]
		delete(m.waiting, *got.ID)
		m.mutex.Unlock()
		if waiter != nil {
			waiter <- got
		}
	}
	m.command.Wait()
	m.end(fmt.Errorf("the memory sidecar ended (%v); its log may say why", m.command.ProcessState))
	close(m.closed)
}

func (m *Memory) end(why error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.ended == nil {
		m.ended = why
	}
	for id, waiter := range m.waiting {
		close(waiter)
		delete(m.waiting, id)
	}
}

// Request sends a request and waits for its answer. If ctx ends first, the request is cancelled.
func (m *Memory) Request(ctx context.Context, method string, params, meta object, result any) error {
	m.mutex.Lock()
	if m.ended != nil {
		defer m.mutex.Unlock()
		return m.ended
	}
	m.last++
	id, waiter := m.last, make(chan answer, 1)
	m.waiting[id] = waiter
	m.mutex.Unlock()

	all, together := maps.Clone(m.meta), object{}
	maps.Copy(all, meta)
	maps.Copy(together, params)
	together["_meta"] = all
	if err := m.send(object{"jsonrpc": "2.0", "id": id, "method": method, "params": together}); err != nil {
		m.forget(id)
		return err
	}
	select {
	case got, ok := <-waiter:
		if !ok {
			return m.ended
		}
		if got.Error != nil {
			return got.Error
		}
		return json.Unmarshal(got.Result, result)
	case <-ctx.Done():
		m.forget(id)
		m.send(object{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": object{"requestId": id}})
		return ctx.Err()
	}
}

func (m *Memory) forget(id int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.waiting, id)
}

func (m *Memory) send(message object) error {
	frame, err := json.Marshal(message)
	if err != nil {
		return err
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	m.stdin.Write(append(frame, '\n')) // if it died meanwhile, the reader says so
	return nil
}

// Close ends the session: the sidecar suspends what is open, and ends.
func (m *Memory) Close() {
	m.stdin.Close()
	select {
	case <-m.closed:
	case <-time.After(20 * time.Second):
		m.command.Process.Kill()
		<-m.closed
	}
}

// Run is an open run: what to tell the model (Tools, Instructions), and where to send its calls.
type Run struct {
	memory       *Memory
	ID           string `json:"run"`
	Resumed      bool
	Instructions string
	Tools        []struct {
		Name, Description string
		InputSchema       json.RawMessage
	}
}

// Open opens a run, or resumes it.
func (m *Memory) Open(ctx context.Context, run string) (*Run, error) {
	opened := &Run{memory: m}
	return opened, m.Request(ctx, "memory-sidecar/run/open", object{"run": run}, nil, opened)
}

// Call serves a call by the model. The text is for the model, whether the call failed or not.
func (r *Run) Call(ctx context.Context, name string, arguments object) (text string, failed bool, err error) {
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	params := object{"name": name, "arguments": arguments}
	err = r.memory.Request(ctx, "tools/call", params, object{"memory-sidecar/run": r.ID}, &result)
	if err != nil || len(result.Content) == 0 {
		return "", true, err
	}
	return result.Content[0].Text, result.IsError, nil
}

func harness() error {
	ctx := context.Background()
	sidecar := os.Getenv("MEMORY_SIDECAR")
	if sidecar == "" {
		sidecar = "memory-sidecar"
	}
	command := append(strings.Fields(sidecar), "serve", "--store-dir", "state", "--default-identity", "plain-go")
	memory, run, err := Launch(ctx, command, "first")
	if err != nil {
		return err
	}
	defer memory.Close() // the run is suspended; the next launch resumes it
	names := []string{}
	for _, tool := range run.Tools {
		names = append(names, tool.Name)
	}
	fmt.Println(map[bool]string{true: "Resumed,", false: "Started,"}[run.Resumed], "with", strings.Join(names, ", "))
	note := object{"key": "greeting", "description": "How to greet", "content": "Say hello."}
	for _, call := range []struct {
		name      string
		arguments object
	}{{"memory_write", note}, {"memory_list", object{}}} {
		text, _, err := run.Call(ctx, call.name, call.arguments)
		if err != nil {
			return err
		}
		fmt.Println(text)
	}
	return nil
}

func main() {
	if err := harness(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
