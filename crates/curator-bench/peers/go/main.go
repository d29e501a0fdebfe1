// The curator-bench worker for go-zookeeper: runs its lock. Reads one request per line and writes one reply per line
// (src/protocol.rs defines both).
//
// The lock is used as its documentation shows: `zk.NewLock`, `Lock`, `Unlock`. A task is a goroutine.
//
// Usage: bench <hosts> <session timeout in milliseconds>
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

var everyone = zk.WorldACL(zk.PermAll)

type silence struct{}

func (silence) Printf(string, ...interface{}) {}

type worker struct {
	hosts    string
	timeout  time.Duration
	requests *bufio.Scanner
	sessions []*zk.Conn
}

func main() {
	milliseconds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	timeout := time.Duration(milliseconds) * time.Millisecond
	w := &worker{hosts: os.Args[1], timeout: timeout, requests: bufio.NewScanner(os.Stdin)}
	for w.requests.Scan() {
		words := strings.Fields(w.requests.Text())
		if len(words) == 0 {
			continue
		}
		reply, err := w.perform(words[0], fields(words[1:]))
		if err != nil {
			reply = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(reply)
	}
	for _, session := range w.sessions {
		session.Close()
	}
}

func (w *worker) perform(request string, with request) (string, error) {
	switch request {
	case "open":
		return "ok", w.open(with)
	case "supports":
		if why := unsupported(with); why != "" {
			return "no " + why, nil
		}
		return "yes", nil
	case "run":
		if why := unsupported(with); why != "" {
			return "", errors.New(why)
		}
		return w.run(with)
	}
	return "", fmt.Errorf("unknown request %q", request)
}

// unsupported returns why this worker cannot run the request, or an empty string if it can.
func unsupported(with request) string {
	switch with["lock"] {
	case "mutex":
	case "":
		return "no lock is named"
	default:
		return "go-zookeeper has only a mutex"
	}
	switch with["case"] {
	case "cycle", "distinct", "handover", "crowd", "reconnect":
		return ""
	case "reentry":
		return "go-zookeeper's lock refuses its holder with ErrDeadlock"
	case "readers":
		return "go-zookeeper has no read lock"
	}
	return fmt.Sprintf("unknown operation %q", with["case"])
}

func (w *worker) open(with request) error {
	count, err := with.number("sessions")
	if err != nil {
		return err
	}
	hosts := w.hosts
	if other := with["connect"]; other != "" {
		hosts = other
	}
	for i := 0; i < count; i++ {
		session, err := connect(hosts, w.timeout)
		if err != nil {
			return err
		}
		w.sessions = append(w.sessions, session)
	}
	return nil
}

// connect returns when the session is open.
func connect(hosts string, timeout time.Duration) (*zk.Conn, error) {
	session, events, err := zk.Connect(strings.Split(hosts, ","), timeout, zk.WithLogger(silence{}))
	if err != nil {
		return nil, err
	}
	for event := range events {
		if event.State == zk.StateHasSession {
			return session, nil
		}
	}
	return nil, errors.New("the session could not be opened")
}

func (w *worker) run(with request) (string, error) {
	path := with["path"]
	if path == "" {
		return "", errors.New("the request has no path")
	}
	switch with["case"] {
	case "crowd", "reconnect":
		return w.crowd(path, with)
	}
	length, err := with.seconds("seconds")
	if err != nil {
		return "", err
	}
	switch with["case"] {
	case "cycle":
		return w.repeat([]string{path}, length)
	case "distinct":
		count, err := with.number("tasks")
		if err != nil {
			return "", err
		}
		return w.repeat(members(path, count), length)
	}
	return w.handover(path, with, length)
}

// repeat runs a task for each path. Each task repeats its cycle until the time is over.
func (w *worker) repeat(paths []string, length time.Duration) (string, error) {
	if err := w.need(1); err != nil {
		return "", err
	}
	locks := make([]*zk.Lock, len(paths))
	// Creates the directories.
	err := all(len(paths), func(task int) error {
		locks[task] = zk.NewLock(w.sessions[0], paths[task], everyone)
		return cycle(locks[task])
	})
	if err != nil {
		return "", err
	}
	counts, begin := make([]int, len(paths)), time.Now()
	err = all(len(paths), func(task int) error {
		for {
			if err := cycle(locks[task]); err != nil {
				return err
			}
			counts[task]++
			if time.Since(begin) >= length {
				return nil
			}
		}
	})
	return done(sum(counts), time.Since(begin)), err
}

// handover runs a task in each session, and counts the acquires within the time.
func (w *worker) handover(path string, with request, length time.Duration) (string, error) {
	sessions, err := with.number("sessions")
	if err != nil {
		return "", err
	}
	start, err := with.start()
	if err != nil {
		return "", err
	}
	if err := w.need(sessions); err != nil {
		return "", err
	}
	if with["start"] != "" {
		// With several processes, the warm-up has created the directories.
		time.Sleep(time.Until(start))
	} else if err := cycle(zk.NewLock(w.sessions[0], path, everyone)); err != nil {
		return "", err
	}
	counts, end := make([]int, sessions), time.Now().Add(length)
	err = all(sessions, func(session int) error {
		lock := zk.NewLock(w.sessions[session], path, everyone)
		for {
			if err := lock.Lock(); err != nil {
				return err
			}
			isOver := !time.Now().Before(end)
			if err := lock.Unlock(); err != nil || isOver {
				return err
			}
			counts[session]++
		}
	})
	return done(sum(counts), length), err
}

func cycle(lock *zk.Lock) error {
	if err := lock.Lock(); err != nil {
		return err
	}
	return lock.Unlock()
}

func (w *worker) need(sessions int) error {
	if len(w.sessions) < sessions {
		return fmt.Errorf("the request needs %d sessions, but %d are open", sessions, len(w.sessions))
	}
	return nil
}

// all runs tasks, and returns when all have ended, or with the first error: the other tasks may wait for the failed one
// for ever.
func all(count int, task func(int) error) error {
	ends := make(chan error, count)
	for i := 0; i < count; i++ {
		go func(i int) { ends <- task(i) }(i)
	}
	for i := 0; i < count; i++ {
		if err := <-ends; err != nil {
			return err
		}
	}
	return nil
}

func members(path string, count int) []string {
	paths := make([]string, count)
	for i := range paths {
		paths[i] = path + "/" + strconv.Itoa(i)
	}
	return paths
}

func sum(counts []int) int {
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}

func done(operations int, length time.Duration) string {
	return fmt.Sprintf("done operations=%d nanoseconds=%d", operations, length.Nanoseconds())
}
