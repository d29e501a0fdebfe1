package main

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// The number of goroutines that check the queues, or create the holder's nodes, in parallel.
const parallel = 64

// The interval between checks whether all waiters are in the queue.
const poll = 10 * time.Millisecond

// crowd makes many goroutines of session 0 wait for the locks that session 1 holds.
func (w *worker) crowd(path string, with request) (string, error) {
	waiters, err := with.number("waiters")
	if err != nil {
		return "", err
	}
	if err := w.need(2); err != nil {
		return "", err
	}
	paths := []string{path}
	if with["paths"] == "each" {
		paths = members(path, waiters)
	}
	held, err := w.hold(paths)
	if err != nil {
		return "", err
	}
	fmt.Println("held")
	if err := w.awaitGo(); err != nil {
		return "", err
	}
	begin, ended := time.Now(), make(chan error, 1)
	go func() {
		ended <- all(waiters, func(waiter int) error {
			return cycle(zk.NewLock(w.sessions[0], paths[waiter%len(paths)], everyone))
		})
	}()
	if err := w.untilQueued(paths, 1+waiters/len(paths), ended); err != nil {
		return "", err
	}
	fmt.Printf("queued nanoseconds=%d\n", time.Since(begin).Nanoseconds())
	if err := w.awaitGo(); err != nil {
		return "", err
	}
	begin = time.Now()
	if err := all(len(held), func(i int) error { return w.sessions[1].Delete(held[i], -1) }); err != nil {
		return "", err
	}
	if err := <-ended; err != nil {
		return "", err
	}
	return done(waiters, time.Since(begin)), nil
}

func (w *worker) awaitGo() error {
	if !w.requests.Scan() || w.requests.Text() != "go" {
		return fmt.Errorf("expected `go`, got %q", w.requests.Text())
	}
	return nil
}

// hold creates a node in the directory of each lock; this node holds the lock while it exists.
func (w *worker) hold(paths []string) ([]string, error) {
	holder, held := w.sessions[1], make([]string, len(paths))
	err := all(parallel, func(first int) error {
		for i := first; i < len(paths); i += parallel {
			// Creates the directory.
			if err := cycle(zk.NewLock(holder, paths[i], everyone)); err != nil {
				return err
			}
			var err error
			if held[i], err = holder.CreateProtectedEphemeralSequential(paths[i]+"/lock-", nil, everyone); err != nil {
				return err
			}
		}
		return nil
	})
	return held, err
}

// untilQueued waits until each directory has this many nodes. It fails if a waiter fails, or if all waiters end, before that.
func (w *worker) untilQueued(paths []string, nodes int, ended <-chan error) error {
	return all(parallel, func(first int) error {
		for i := first; i < len(paths); i += parallel {
			for {
				_, stat, err := w.sessions[1].Exists(paths[i])
				if err != nil {
					return err
				}
				if int(stat.NumChildren) >= nodes {
					break
				}
				select {
				case err := <-ended:
					return fmt.Errorf("a waiter has ended too early: %v", err)
				case <-time.After(poll):
				}
			}
		}
		return nil
	})
}
