package stream

import "sync"

// waitsFor holds ids until whoever waits for their acks takes them.
type waitsFor struct {
	lock sync.Mutex
	by   map[uint64]string
}

func (w *waitsFor) put(seq uint64, id string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.by == nil {
		w.by = map[uint64]string{}
	}
	w.by[seq] = id
}

func (w *waitsFor) take(seq uint64) string {
	w.lock.Lock()
	defer w.lock.Unlock()
	id := w.by[seq]
	delete(w.by, seq)
	return id
}
