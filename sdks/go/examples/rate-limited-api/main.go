// Calls an API that allows so many requests: what it turns away waits as long as it says, at no attempt's cost.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
)

type fetched struct {
	Status int   `json:"status"`
	Bytes  int64 `json:"bytes"`
}

func fetch(ctx context.Context, job *codeq.Job[string]) (fetched, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, job.Payload, nil)
	if err != nil {
		return fetched{}, codeq.Fail(err.Error())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fetched{}, err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		// The lane is the customer of the API: the others go on.
		return fetched{}, codeq.RetryHoldingLane(time.Duration(max(1, seconds))*time.Second, "the API asks for a pause")
	case response.StatusCode >= 500:
		return fetched{}, fmt.Errorf("the API says %d", response.StatusCode)
	case response.StatusCode >= 400:
		return fetched{}, codeq.Fail(fmt.Sprintf("the API says %d", response.StatusCode))
	}
	size, err := io.Copy(io.Discard, response.Body)
	return fetched{response.StatusCode, size}, err
}

func main() {
	worker := codeq.NewWorker(codeq.NewClient(""), codeq.Concurrency(4))
	codeq.Handle(worker, "api.fetch", fetch)
	if err := worker.RunUntilSignal(); err != nil {
		log.Fatal(err)
	}
}
