package codeq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
)

type result struct{ TaskID, Status string }

// say is an answer to a batch of results.
type say func(w http.ResponseWriter, results []result)

// fake is a server made of canned answers, for what a real one does not say on request. It lends its tasks once, keeps every
// lease, and answers results with what answers says, the last for ever.
type fake struct {
	lock    sync.Mutex
	lent    bool
	tasks   int
	claims  []string
	answers []say
	// reported are the statuses of results, request by request.
	reported []string
	heard    chan struct{}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Results []result }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	switch path.Base(r.URL.Path) {
	case "batch":
		if len(f.claims) > 0 {
			fmt.Fprint(w, f.claims[0])
			f.claims = f.claims[1:]
			return
		}
		if f.lent {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		f.lent = true
		var tasks []string
		for n := range f.tasks {
			tasks = append(tasks, fmt.Sprintf(`{"id":"task-%d","command":"done","attempts":1,"payload":"null"}`, n))
		}
		fmt.Fprintf(w, `{"tasks":[%s]}`, strings.Join(tasks, ","))
	case "claim":
		time.Sleep(20 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	case "heartbeat":
		fmt.Fprint(w, `{"ok":true}`)
	default:
		var statuses []string
		for _, one := range body.Results {
			statuses = append(statuses, one.Status)
		}
		f.reported = append(f.reported, strings.Join(statuses, " "))
		answer := f.answers[0]
		if len(f.answers) > 1 {
			f.answers = f.answers[1:]
		}
		answer(w, body.Results)
		f.heard <- struct{}{}
	}
}

func perItem(format string) say {
	return func(w http.ResponseWriter, results []result) {
		var items []string
		for _, one := range results {
			items = append(items, fmt.Sprintf(`{"taskId":%q,%s}`, one.TaskID, format))
		}
		fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(items, ","))
	}
}

func whole(status int, body string) say {
	return func(w http.ResponseWriter, _ []result) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

var taken = perItem(`"result":{}`)

// statuses are what a worker reports for handlers that complete, request by request, when it is answered like that.
func statuses(t *testing.T, f *fake, reports int) string {
	t.Helper()
	f.heard = make(chan struct{}, 100)
	server := httptest.NewServer(f)
	defer server.Close()
	worker := codeq.NewWorker(codeq.NewClient(server.URL, codeq.Token("token")), codeq.Lease(2*time.Second))
	both := sync.WaitGroup{}
	both.Add(f.tasks)
	codeq.Handle(worker, "done", func(context.Context, *codeq.Job[any]) (any, error) {
		both.Done()
		both.Wait()
		return nil, nil
	})
	stop := working(t, worker)
	for range reports {
		select {
		case <-f.heard:
		case <-time.After(10 * time.Second):
			t.Error("no report")
		}
	}
	stop()
	return strings.Join(f.reported, ", ")
}

func TestFinishedWorkIsReportedAgainWhenTheAnswerSaysNothingAboutIt(t *testing.T) {
	answers := map[string]say{
		"500":           whole(500, `{"error":"internal error","code":"internal"}`),
		"501":           whole(501, ""),
		"401":           whole(401, `{"error":"expired","code":"invalid_token"}`),
		"403":           whole(403, `{"error":"missing scope","code":"missing_scope"}`),
		"404":           whole(404, `{"error":"404 page not found","code":"route_not_found"}`),
		"a page":        whole(200, "<html>"),
		"too few":       whole(200, `{"results":[]}`),
		"an item":       perItem(`"error":"internal error","code":"internal"`),
		"no store":      perItem(`"error":"storage unavailable","code":"storage_unavailable"`),
		"shutting down": perItem(`"error":"shutting down","code":"shutting_down"`),
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			got := statuses(t, &fake{tasks: 1, answers: []say{answer, answer, taken}}, 3)
			if got != "COMPLETED, COMPLETED, COMPLETED" {
				t.Fatal(got)
			}
		})
	}
}

func TestAResultThatIsNeverTakenBecomesAFailure(t *testing.T) {
	answers := []say{
		whole(400, `{"error":"invalid body","code":"invalid_body"}`),
		whole(413, `{"error":"request body too large","code":"body_too_large"}`),
		perItem(`"error":"invalid artifact name: x","code":"invalid_artifact"`),
	}
	for _, answer := range answers {
		if got := statuses(t, &fake{tasks: 1, answers: []say{answer, taken}}, 2); got != "COMPLETED, FAILED" {
			t.Error(got)
		}
	}
}

func TestAResultThatIsNeverTakenTakesNoOtherWithIt(t *testing.T) {
	var failures int
	oneIsBad := func(w http.ResponseWriter, results []result) {
		for _, one := range results {
			if one.TaskID == "task-1" && one.Status == "COMPLETED" {
				whole(400, `{"error":"invalid body","code":"invalid_body"}`)(w, results)
				return
			}
			if one.Status == "FAILED" {
				failures++
			}
		}
		taken(w, results)
	}
	f := &fake{tasks: 3, answers: []say{oneIsBad}}
	got := statuses(t, f, 3)
	if failures != 1 || strings.Count(got, "FAILED") != 1 {
		t.Fatal(got)
	}
}

func TestAClaimThatIsAnsweredByAProxyIsRepeated(t *testing.T) {
	got := statuses(t, &fake{tasks: 1, claims: []string{"<html>", "[]"}, answers: []say{taken}}, 1)
	if got != "COMPLETED" {
		t.Fatal(got)
	}
}
