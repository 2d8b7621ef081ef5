// The YAML oracle: how kubectl and the API server read YAML.
//
// Frames on stdin: a letter, a 32-bit little-endian length, the text. One line of JSON per frame on stdout.
//
//	s  one document, strict (sigs.k8s.io/yaml YAMLToJSONStrict: duplicate keys are errors, as with fieldValidation=Strict)
//	l  one document, lenient (YAMLToJSON, as kubectl reads a file)
//	m  a stream of documents (apimachinery's YAMLOrJSONDecoder, as kubectl reads a file)
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"

	goyaml "go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

type answer struct {
	Docs  []json.RawMessage `json:"docs"`
	More  int               `json:"more"` // documents behind the first, which s and l do not show
	Error string            `json:"error,omitempty"`
}

// rest reads what YAMLToJSON does not look at: how many documents follow the first, and whether they parse.
func rest(text []byte) (more int, err error) {
	d := goyaml.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		var v interface{}
		if err := d.Decode(&v); err == io.EOF {
			return max(n-1, 0), nil
		} else if _, wrongType := err.(*goyaml.TypeError); err != nil && !wrongType {
			return 0, err
		}
	}
}

func stream(text []byte) (docs []json.RawMessage, err error) {
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		ext := runtime.RawExtension{}
		if err := d.Decode(&ext); err == io.EOF {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		ext.Raw = bytes.TrimSpace(ext.Raw)
		if len(ext.Raw) > 0 && !bytes.Equal(ext.Raw, []byte("null")) {
			docs = append(docs, json.RawMessage(ext.Raw))
		}
	}
}

func one(kind byte, text []byte) (docs []json.RawMessage, err error) {
	var out []byte
	switch kind {
	case 'm':
		return stream(text)
	case 's':
		out, err = yaml.YAMLToJSONStrict(text)
	default:
		out, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return nil, err
	}
	return []json.RawMessage{out}, nil
}

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(in, head); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		text := make([]byte, binary.LittleEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(in, text); err != nil {
			panic(err)
		}
		a := answer{Docs: []json.RawMessage{}}
		docs, err := one(head[0], text)
		if err == nil && head[0] != 'm' {
			a.More, err = rest(text)
		}
		if err != nil {
			a.Error = err.Error()
		} else {
			a.Docs = append(a.Docs, docs...)
		}
		line, err := json.Marshal(a)
		if err != nil {
			panic(err)
		}
		out.Write(append(line, '\n'))
	}
}
