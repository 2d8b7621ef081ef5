// The test service of tests/integ/grpc on grpc-go; see ../service.txt.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// rawCodec passes bytes through.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = append([]byte(nil), b...); return nil }

var (
	mu                sync.Mutex
	active, maxActive int
)

func report(fields map[string]any) {
	line, _ := json.Marshal(fields)
	mu.Lock()
	defer mu.Unlock()
	fmt.Println(string(line))
}

type ask map[string]string

func parse(request []byte) ask {
	head := request[:min(len(request), 4096)]
	a := ask{}
	for _, word := range strings.Split(string(head), " ") {
		if name, value, found := strings.Cut(word, "="); found {
			a[name] = value
		}
	}
	return a
}

func (a ask) number(name string) int {
	n, _ := strconv.Atoi(a[name])
	return n
}

// sleep is false when the call ended first.
func sleep(ctx context.Context, ms int) bool {
	if ms == 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return true
	}
}

func serve(unary bool, stream grpc.ServerStream) error {
	mu.Lock()
	active++
	maxActive = max(maxActive, active)
	mu.Unlock()
	defer func() { mu.Lock(); active--; mu.Unlock() }()

	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	a, ctx, sent := parse(request), stream.Context(), 0
	report(map[string]any{"event": "begun", "id": a["id"], "sent": 0})
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			// Also when the handler has returned: only what came before that is a cancel.
			select {
			case <-ended:
			default:
				report(map[string]any{"event": "cancelled", "id": a["id"], "sent": sent})
			}
		case <-ended:
		}
	}()
	count := a.number("count")
	if unary {
		count = 1
		if a.number("status") != 0 {
			count = 0
		}
	}
	reply := make([]byte, a.number("size"))
	ok := sleep(ctx, a.number("wait_ms"))
	for ; ok && sent < count; sent++ {
		if a["echo"] == "1" {
			reply = request
		} else {
			reply = append([]byte(nil), reply...)
			for i := range reply {
				reply[i] = byte(sent + i)
			}
		}
		if err := stream.SendMsg(&reply); err != nil {
			<-ctx.Done() // so that the cancel is reported
			time.Sleep(10 * time.Millisecond)
			return err
		}
		if (sent+1)%1000 == 0 {
			report(map[string]any{"event": "sent", "id": a["id"], "sent": sent + 1})
		}
		ok = sleep(ctx, a.number("delay_ms"))
	}
	if !ok {
		time.Sleep(10 * time.Millisecond)
		return ctx.Err()
	}
	trailer := metadata.MD{}
	if md, found := metadata.FromIncomingContext(ctx); found {
		for name, values := range md {
			if strings.HasPrefix(name, "x-") {
				trailer[name] = values
			}
		}
	}
	mu.Lock()
	trailer.Set("max-active", strconv.Itoa(maxActive))
	mu.Unlock()
	trailer.Set("sent", strconv.Itoa(sent))
	if deadline, found := ctx.Deadline(); found {
		trailer.Set("left-ms", strconv.FormatInt(time.Until(deadline).Milliseconds(), 10))
	}
	stream.SetTrailer(trailer)
	if code := a.number("status"); code != 0 {
		return status.Error(codes.Code(code), strings.ReplaceAll(a["message"], "_", " "))
	}
	return nil
}

// certificate makes a CA-less server certificate for localhost, writes it to path, and returns it.
func certificate(path string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost", "engine.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	check(err)
	check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc-go server:", err)
		os.Exit(1)
	}
}

func main() {
	address, options, alpn := "127.0.0.1:0", []grpc.ServerOption{grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(64 << 20)}, true
	var secure *tls.Config
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "listen":
			address = value
		case "max_streams":
			n, err := strconv.Atoi(value)
			check(err)
			options = append(options, grpc.MaxConcurrentStreams(uint32(n)))
		case "gzip":
			//nolint:staticcheck // the only way to compress whatever the client accepts
			options = append(options, grpc.RPCCompressor(grpc.NewGZIPCompressor()))
		case "tls":
			secure = &tls.Config{Certificates: []tls.Certificate{certificate(value)}}
		case "alpn":
			alpn = value != "none"
		default:
			check(fmt.Errorf("bad option %q", arg))
		}
	}
	network := "tcp"
	if path, found := strings.CutPrefix(address, "unix:"); found {
		network, address = "unix", path
	}
	listener, err := net.Listen(network, address)
	check(err)
	port := 0
	if tcp, found := listener.Addr().(*net.TCPAddr); found {
		port = tcp.Port
	}
	if secure != nil && !alpn {
		// A TLS server that has never heard of HTTP/2.
		listener = tls.NewListener(listener, secure)
	} else if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	server := grpc.NewServer(options...)
	handler := func(unary bool) grpc.StreamHandler {
		return func(_ any, stream grpc.ServerStream) error { return serve(unary, stream) }
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "kelpie.test.Probe",
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "Unary", Handler: handler(true), ServerStreams: true},
			{StreamName: "Stream", Handler: handler(false), ServerStreams: true},
		},
	}, nil)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		server.GracefulStop()
	}()
	report(map[string]any{"event": "listening", "port": port})
	check(server.Serve(listener))
}
