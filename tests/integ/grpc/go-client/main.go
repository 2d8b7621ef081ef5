// A client on grpc-go for test_server.py: commands and answers are those of tests/tools/grpc_probe.c, as far as they are about calls.
//
// Usage: ADDRESS [ca=FILE] [cert=FILE key=FILE] [name=NAME].
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// rawCodec passes bytes through.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = append([]byte(nil), b...); return nil }

type call struct {
	cancel context.CancelFunc
	resume chan struct{}
}

var (
	mu    sync.Mutex
	calls = map[string]*call{}
)

func report(fields map[string]any) {
	line, _ := json.Marshal(fields)
	mu.Lock()
	defer mu.Unlock()
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc-go client:", err)
		os.Exit(2)
	}
}

// names of gRPC's codes as the other clients print them.
var names = strings.Fields("OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED " +
	"RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED")

type options struct {
	timeoutMs, pad, pauseAfter, cancelAfter int
	md                                      []string
}

func parse(words []string) options {
	var o options
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "timeout_ms":
			o.timeoutMs = n
		case "pad":
			o.pad = n
		case "pause_after":
			o.pauseAfter = n
		case "cancel_after":
			o.cancelAfter = n
		case "md":
			key, v, _ := strings.Cut(value, ":")
			if strings.HasSuffix(key, "-bin") {
				raw, err := hex.DecodeString(v)
				check(err)
				v = string(raw)
			}
			o.md = append(o.md, key, v)
		default:
			check(fmt.Errorf("bad option %q", word))
		}
	}
	return o
}

func trailersOf(md metadata.MD) [][2]string {
	found := [][2]string{}
	for name, values := range md {
		for _, value := range values {
			if strings.HasSuffix(name, "-bin") {
				value = hex.EncodeToString([]byte(value))
			}
			found = append(found, [2]string{name, value})
		}
	}
	return found
}

func run(conn *grpc.ClientConn, ctx context.Context, c *call, id, method string, o options, request []byte) {
	messages, bytes, crc, next := 0, 0, uint32(0), 1
	progress := func() { report(map[string]any{"event": "progress", "id": id, "messages": messages}) }
	var trailer metadata.MD
	err := func() error {
		stream, err := conn.NewStream(metadata.AppendToOutgoingContext(ctx, o.md...), &grpc.StreamDesc{ServerStreams: true}, method)
		if err != nil {
			return err
		}
		defer func() { trailer = stream.Trailer() }()
		if err := stream.SendMsg(&request); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		for {
			var reply []byte
			if err := stream.RecvMsg(&reply); err != nil {
				return err
			}
			crc = crc32.Update(crc, crc32.IEEETable, binary.BigEndian.AppendUint32(nil, uint32(len(reply))))
			crc = crc32.Update(crc, crc32.IEEETable, reply)
			messages++
			bytes += len(reply)
			if messages == next {
				next *= 10
				progress()
			}
			if messages == o.cancelAfter {
				c.cancel()
			}
			if messages == o.pauseAfter {
				progress()
				select {
				case <-c.resume:
				case <-ctx.Done():
				}
			}
		}
	}()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s := status.Convert(err)
	report(map[string]any{"event": "end", "id": id, "code": names[s.Code()], "message": s.Message(), "messages": messages, "bytes": bytes,
		"crc": crc, "trailers": trailersOf(trailer)})
}

func start(conn *grpc.ClientConn, line string, done *sync.WaitGroup) {
	head, text, _ := strings.Cut(line, " -- ")
	words := strings.Fields(head)
	o := parse(words[2:])
	ctx, cancel := context.WithCancel(context.Background())
	if o.timeoutMs > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(o.timeoutMs)*time.Millisecond)
	}
	c := &call{cancel, make(chan struct{}, 1)}
	mu.Lock()
	calls[words[0]] = c
	mu.Unlock()
	request := append([]byte(text), []byte(strings.Repeat("x", o.pad))...)
	done.Add(1)
	go func() {
		defer done.Done()
		run(conn, ctx, c, words[0], words[1], o, request)
		cancel()
	}()
}

func dial() *grpc.ClientConn {
	files := map[string]string{}
	for _, arg := range os.Args[2:] {
		name, value, _ := strings.Cut(arg, "=")
		files[name] = value
	}
	creds := insecure.NewCredentials()
	if ca, found := files["ca"]; found {
		config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: files["name"]}
		pem, err := os.ReadFile(ca)
		check(err)
		config.RootCAs.AppendCertsFromPEM(pem)
		if files["cert"] != "" {
			pair, err := tls.LoadX509KeyPair(files["cert"], files["key"])
			check(err)
			// Not config.Certificates: Go would keep back one that the server's list of authorities does not name.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		creds = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient("passthrough:///"+os.Args[1], grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	check(err)
	return conn
}

func main() {
	conn := dial()
	var done sync.WaitGroup
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			break
		}
		verb, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		mu.Lock()
		c := calls[rest]
		mu.Unlock()
		switch verb {
		case "start":
			start(conn, rest, &done)
		case "cancel":
			c.cancel()
		case "resume":
			c.resume <- struct{}{}
		default:
			check(fmt.Errorf("bad command %q", line))
		}
	}
	mu.Lock()
	for _, c := range calls {
		c.cancel()
	}
	mu.Unlock()
	done.Wait()
	check(conn.Close())
}
