// A report every night at half past two in Berlin. Putting an equal schedule again changes nothing.
package main

import (
	"context"
	"log"

	codeq "github.com/codeq/codeq/sdks/go"
)

type report struct {
	Kind string `json:"kind"`
	For  string `json:"for"`
}

func main() {
	client := codeq.NewClient("")
	task, err := codeq.New("report.nightly", report{Kind: "sales"}, codeq.MaxAttempts(3))
	if err != nil {
		log.Fatal(err)
	}
	plan := codeq.Schedule{Task: task, Cron: "30 2 * * *", Timezone: "Europe/Berlin", CatchUp: "one"}
	state, err := client.PutSchedule(context.Background(), "nightly-report", plan)
	if err != nil {
		log.Fatal(err)
	}
	log.Println("next at", state.NextAt)

	worker := codeq.NewWorker(client)
	codeq.Handle(worker, "report.nightly", func(_ context.Context, job *codeq.Job[report]) (report, error) {
		// The instant of the plan, which is the same in every attempt.
		return report{Kind: job.Payload.Kind, For: job.Headers["codeq-scheduled-for"]}, nil
	})
	if err := worker.RunUntilSignal(); err != nil {
		log.Fatal(err)
	}
}
