package stream_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/stream"
)

// protect makes the next server speak TLS, and gives what trusts it.
func protect(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(variable, kind string, bytes []byte) []byte {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
		path := filepath.Join(t.TempDir(), "file.pem")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(variable, path)
		return text
	}
	write("CODEQ_TLS_KEY_FILE", "PRIVATE KEY", private)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(write("CODEQ_TLS_CERT_FILE", "CERTIFICATE", certificate))
	return &tls.Config{RootCAs: trusted}
}

func TestStreamsSpeakTLS(t *testing.T) {
	settings := protect(t)
	server, workerAddress, producerAddress := start(t)
	if !strings.HasPrefix(server.URL, "https://") {
		t.Fatal(server.URL)
	}
	client := codeq.NewClient(server.URL, codeq.Token(server.Token),
		codeq.HTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: settings}}))
	token := stream.Static(server.Token)
	link := stream.NewLink("https://"+workerAddress, token, "streaming", stream.WithTLS(settings))
	worker := codeq.NewWorker(client, codeq.Over(link))
	codeq.Handle(worker, "safe", func(context.Context, *codeq.Job[any]) (string, error) { return "done", nil })
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()

	producer := stream.NewProducer(producerAddress, token, stream.WithTLS(settings))
	defer producer.Close()
	id, err := producer.Create(ctx, codeq.NewTask{Command: "safe", Payload: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := client.Wait(ctx, id)
	if err != nil || string(outcome.Value) != `{"value":"done"}` {
		t.Fatal(outcome, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatIsNotTrustedIsNotSpokenTo(t *testing.T) {
	protect(t)
	_, workerAddress, _ := start(t)
	link := stream.NewLink("https://"+workerAddress, stream.Static("dev-token"), "streaming")
	defer link.Close()
	_, err := link.Claim(context.Background(), codeq.Claim{Commands: []string{"safe"}, Count: 1, Lease: time.Second})
	var absent *codeq.Absent
	if !errors.As(err, &absent) || !strings.Contains(absent.Text, "x509") {
		t.Fatal(err)
	}
}
