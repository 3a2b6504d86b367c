// Reads and writes headers as the Go implementation does, with goccy/go-yaml and a struct of one text.
//
// A line of stdin is a question, a line of stdout its answer: {"read": header} is answered by {"text": description} or
// {"refused": true}, {"write": description} by {"header": header}.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	"github.com/goccy/go-yaml"
)

type header struct {
	Description string `yaml:"description"`
}

type question struct {
	Read  *string `json:"read"`
	Write *string `json:"write"`
}

func answer(asked question) map[string]any {
	if asked.Write != nil {
		written, err := yaml.Marshal(header{Description: *asked.Write})
		if err != nil {
			return map[string]any{"refused": true}
		}
		return map[string]any{"header": string(written)}
	}
	var found header
	if err := yaml.Unmarshal([]byte(*asked.Read), &found); err != nil {
		return map[string]any{"refused": true}
	}
	return map[string]any{"text": found.Description}
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	buffered := bufio.NewWriter(os.Stdout)
	defer buffered.Flush()
	out := json.NewEncoder(buffered)
	for in.More() {
		var asked question
		if err := in.Decode(&asked); err != nil {
			panic(err)
		}
		if err := out.Encode(answer(asked)); err != nil {
			panic(err)
		}
	}
}
