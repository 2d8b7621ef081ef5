// The server of bench/grpc: streams small messages as fast as it can, at common ticks (an engine's steps), or each stream at its own pace.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
)

type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = append([]byte(nil), b...); return nil }

// beat wakes all who wait, once per period.
type beat struct {
	sync.Mutex
	next chan struct{}
}

var (
	beats   = map[int]*beat{}
	beatsMu sync.Mutex
)

func beatOf(us int) *beat {
	beatsMu.Lock()
	defer beatsMu.Unlock()
	b := beats[us]
	if b == nil {
		b = &beat{next: make(chan struct{})}
		beats[us] = b
		go func() {
			for range time.Tick(time.Duration(us) * time.Microsecond) {
				b.Lock()
				close(b.next)
				b.next = make(chan struct{})
				b.Unlock()
			}
		}()
	}
	return b
}

func (b *beat) wait() {
	b.Lock()
	c := b.next
	b.Unlock()
	<-c
}

func run(_ any, stream grpc.ServerStream) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	ask := map[string]int{}
	for _, word := range strings.Fields(string(request)) {
		name, value, _ := strings.Cut(word, "=")
		ask[name], _ = strconv.Atoi(value)
	}
	reply := make([]byte, ask["size"])
	for i := range reply {
		reply[i] = byte(i + 1)
	}
	var ticks *beat
	if us := ask["tick_us"]; us > 0 {
		ticks = beatOf(us)
	}
	for range ask["count"] {
		if ticks != nil {
			ticks.wait()
		}
		if gap := ask["gap_us"]; gap > 0 {
			time.Sleep(time.Duration(gap) * time.Microsecond)
		}
		if err := stream.SendMsg(&reply); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "kelpie.bench.Stream",
		HandlerType: (*any)(nil),
		Streams:     []grpc.StreamDesc{{StreamName: "Run", Handler: run, ServerStreams: true}},
	}, nil)
	fmt.Println(listener.Addr())
	// The parent closes our input when it is done.
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	_ = server.Serve(listener)
}
