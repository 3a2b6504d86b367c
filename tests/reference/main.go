// Lets another program use the stores of the implementation in Go: a line of JSON in, a line of JSON out.
//
// The packages are internal to their module, so this file is copied into a checkout of it and built there.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/choria-io/fisk-ai/config"
	"github.com/choria-io/fisk-ai/internal/memory"
	_ "github.com/choria-io/fisk-ai/internal/memory/file"
	_ "github.com/choria-io/fisk-ai/internal/memory/jetstream"
)

type request struct {
	Call        string          `json:"call"`
	Backend     string          `json:"backend"`
	URL         string          `json:"url"`
	Options     json.RawMessage `json:"options"`
	Key         string          `json:"key"`
	Description string          `json:"description"`
	Content     string          `json:"content"`
	Overwrite   bool            `json:"overwrite"`
}

type answer struct {
	Error       string        `json:"error,omitempty"`
	Done        bool          `json:"done"`
	Description string        `json:"description"`
	Content     string        `json:"content"`
	Items       []memory.Item `json:"items"`
}

func open(asked request) (memory.Store, error) {
	cfg := &config.Config{Identity: "agent"}
	cfg.Harness.Memory = &config.MemoryConfig{Enabled: true, Backend: asked.Backend, Options: asked.Options}
	env := memory.RuntimeEnv{}
	if asked.URL != "" {
		connection, err := nats.Connect(asked.URL)
		if err != nil {
			return nil, err
		}
		env.Nats = connection
	}
	return memory.New(cfg, env)
}

func handle(ctx context.Context, store memory.Store, asked request) (found answer) {
	var err error
	switch asked.Call {
	case "write":
		err = store.Write(ctx, asked.Key, asked.Description, asked.Content, asked.Overwrite)
		found.Done = err == nil
	case "delete":
		found.Done, err = store.Delete(ctx, asked.Key)
	case "read":
		found.Description, found.Content, err = store.Read(ctx, asked.Key)
		found.Done = err == nil
	case "list":
		found.Items, err = store.List(ctx)
	default:
		err = fmt.Errorf("no such call: %q", asked.Call)
	}
	switch {
	case errors.Is(err, memory.ErrExists):
		found.Error = "exists"
	case errors.Is(err, memory.ErrNotExist):
		found.Error = "absent"
	case errors.Is(err, memory.ErrStale):
		found.Error = "stale"
	case err != nil:
		found.Error = err.Error()
	}
	return found
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	var store memory.Store
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			panic(err)
		}
		if asked.Call == "open" {
			store, err = open(asked)
			var found answer
			if err != nil {
				found.Error = err.Error()
			}
			_ = out.Encode(found)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_ = out.Encode(handle(ctx, store, asked))
		cancel()
	}
}
