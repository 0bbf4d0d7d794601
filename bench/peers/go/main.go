// Drives one queue from one process: producers that wait for each answer, and workers that finish what they get.
//
// usage: peers SYSTEM ADDRESS PRODUCERS WORKERS WINDOW SECONDS   the race
//
//	peers SYSTEM ADDRESS one-by-one JOBS                   only producers: one job after the other
//
// It prints "begin" when it starts to count, a line of JSON when it has counted, and ends when it reads a line. With
// one-by-one it prints "ready", waits for a line and then enqueues. So whoever started it can look at the processes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"
)

// backlogMax is how many jobs may wait: producers pause beyond it, so rates are steady states and not bursts.
const backlogMax = 4_000

// warmUp passes before anything is counted.
const warmUp = 2 * time.Second

// A Peer is a queue as its own users drive it.
type Peer interface {
	// Producer is a producer with a connection of its own where the client allows it.
	Producer(ctx context.Context) (Producer, error)
	// Work lets workers take jobs, each with up to window in hand, and tells done how many were finished durably.
	Work(ctx context.Context, workers, window int, done func(int)) error
}

// A Producer enqueues jobs and returns when all of them are acknowledged.
type Producer func(ctx context.Context, jobs [][]byte) error

var systems = map[string]func(ctx context.Context, address string) (Peer, error){
	"codeq":       openCodeq,
	"redis-lists": openRedisLists,
	"beanstalkd":  openBeanstalkd,
	"rabbitmq":    openRabbitMQ,
	"nats":        openNATS,
	"skip-locked": openSkipLocked,
	"river":       openRiver,
	"asynq":       openAsynq,
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 5 {
		log.Fatal("usage: peers SYSTEM ADDRESS (PRODUCERS WORKERS WINDOW SECONDS | one-by-one JOBS)")
	}
	open, known := systems[os.Args[1]]
	if !known {
		log.Fatalf("no such system: %s", os.Args[1])
	}
	ctx := context.Background()
	peer, err := open(ctx, os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if os.Args[3] == "one-by-one" {
		err = oneByOne(ctx, peer, number(4))
	} else {
		err = race(ctx, peer, shape{number(3), number(4), number(5), time.Duration(number(6)) * time.Second})
	}
	if err != nil {
		log.Fatal(err)
	}
}

func number(at int) int {
	value, err := strconv.Atoi(os.Args[at])
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func oneByOne(ctx context.Context, peer Peer, count int) error {
	enqueue, err := peer.Producer(ctx)
	if err != nil {
		return err
	}
	// The first may open files or connections.
	if err := enqueue(ctx, [][]byte{job(0)}); err != nil {
		return err
	}
	fmt.Println("ready")
	if err := untilSeen(); err != nil {
		return err
	}
	for at := range count {
		if err := enqueue(ctx, [][]byte{job(at + 1)}); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]int{"enqueued": count})
}

// job is what is enqueued everywhere: about 300 bytes of JSON.
func job(number int) []byte {
	const pad = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" +
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	return fmt.Appendf(nil, `{"id":"%016x","command":"email.send","to":"user-%08d@example.com","template":"welcome","pad":"%s"}`,
		number, number, pad)
}
