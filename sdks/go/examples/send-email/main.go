// Sends email, tries again what the mail server refuses for now, and gives up on what it refuses for good.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/smtp"
	"net/textproto"
	"os"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
)

type email struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

func send(_ context.Context, job *codeq.Job[email]) (map[string]string, error) {
	// The same in every attempt, so that a mail server can drop what it has seen.
	id := fmt.Sprintf("<%s@example.com>", job.ID)
	message := fmt.Sprintf("Message-ID: %s\r\nTo: %s\r\nSubject: %s\r\n\r\n%s\r\n",
		id, job.Payload.To, job.Payload.Subject, job.Payload.Text)
	err := smtp.SendMail(os.Getenv("SMTP_ADDR"), nil, "codeq@example.com", []string{job.Payload.To}, []byte(message))
	var refused *textproto.Error
	if errors.As(err, &refused) && refused.Code >= 500 {
		return nil, codeq.Fail("refused: " + refused.Msg)
	}
	if err != nil {
		return nil, codeq.Retry(time.Minute, err.Error())
	}
	return map[string]string{"messageId": id}, nil
}

func main() {
	worker := codeq.NewWorker(codeq.NewClient(""))
	codeq.Handle(worker, "send_email", send)
	if err := worker.RunUntilSignal(); err != nil {
		log.Fatal(err)
	}
}
