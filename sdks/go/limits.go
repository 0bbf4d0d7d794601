package codeq

import "time"

// The bounds of every batch, wait, queue and repetition of the SDK.
const (
	// batchItems is how many items one batch of creates, claims or results has.
	batchItems = 100
	// createBatchBytes are the bytes of creates in one batch; the server reads bodies up to 4 MiB.
	createBatchBytes = 3 << 20
	// resultBatchBytes are the bytes of results in one batch beyond which it takes no further one.
	resultBatchBytes = 8 << 20
	// batchesAtOnce is how many batches of one kind are under way at once.
	batchesAtOnce = 4
	// maxArtifacts is how many artifacts one result has.
	maxArtifacts = 16
	// maxConcurrency is how many jobs one worker has at a time.
	maxConcurrency = 5000
	// answerBytes is the most that is read of one answer; a batch of claims may carry 100 payloads of 1 MiB.
	answerBytes = 256 << 20
	// errorBytes is how much of an error is sent; the server keeps as much.
	errorBytes = 8192
	// workerNameBytes is how long the name of a worker can be.
	workerNameBytes = 128

	minLease = time.Second
	maxLease = 12 * time.Hour
	// claimWait is how long a claim waits for work in one request.
	claimWait = 20 * time.Second
	// resultWait is how long a read of a result waits in one request.
	resultWait = 30 * time.Second
	// requestTime is what a request may take beyond what it waits.
	requestTime = 30 * time.Second

	// firstPause and lastPause bound the pauses before something is tried again.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// maxRetryAfter cuts a pause that the server asks for.
	maxRetryAfter = 30 * time.Second
	// defaultGiveUp is how long a call is repeated before it is given up.
	defaultGiveUp = time.Minute

	// defaultGrace is what handlers have to end by themselves when a worker shuts down.
	defaultGrace = 25 * time.Second
	// cancelTime is what a handler has to return after a shutdown cancelled it.
	cancelTime = time.Second
	// lastReports is what the last reports of a shutdown have to get through.
	lastReports = 5 * time.Second
)
