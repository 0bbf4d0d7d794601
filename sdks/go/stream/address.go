package stream

import (
	"crypto/tls"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Option is one setting of a stream.
type Option func(*target)

// WithTLS makes the stream speak TLS with these settings: authorities of your own, a certificate of the client's. An address
// that begins with https:// alone trusts the authorities of the system, or those in the file that SSL_CERT_FILE names.
func WithTLS(settings *tls.Config) Option {
	return func(t *target) { t.tls = settings }
}

// target is where a stream leads, and how.
type target struct {
	address string
	tls     *tls.Config
}

// targetOf reads host:port, https://host:port or http://host:port.
func targetOf(address string, options []Option) target {
	t := target{address: strings.TrimPrefix(strings.TrimRight(address, "/"), "http://")}
	if rest, ok := strings.CutPrefix(t.address, "https://"); ok {
		t.address, t.tls = rest, &tls.Config{MinVersion: tls.VersionTLS12}
	}
	for _, option := range options {
		option(&t)
	}
	return t
}

func (t target) dial() (*grpc.ClientConn, error) {
	protection := insecure.NewCredentials()
	if t.tls != nil {
		protection = credentials.NewTLS(t.tls)
	}
	return grpc.NewClient(t.address,
		grpc.WithTransportCredentials(protection),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout}))
}
