// A go-zookeeper client that executes commands: one command per line, one reply per line.
//
// A reply is `ok`, optionally followed by words, or `error` and the client's message. The reply to a blocking command is
// sent when it is done. `stop` closes the session and ends the program with status 0.
//
// Usage: agent <name> <hosts> <session timeout in seconds>
package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// The longest pause between two cycles.
const longestRest = 4 * time.Millisecond

var everyone = zk.WorldACL(zk.PermAll)

// silence discards the client's log: the tests provoke its messages, such as lost connections.
type silence struct{}

func (silence) Printf(string, ...interface{}) {}

type agent struct {
	name   string
	client *zk.Conn
	locks  map[string]*zk.Lock
}

// connect returns when there is a session.
func connect(name, hosts string, timeout time.Duration) (*agent, error) {
	client, events, err := zk.Connect(strings.Split(hosts, ","), timeout, zk.WithLogger(silence{}))
	if err != nil {
		return nil, err
	}
	for event := range events {
		if event.State == zk.StateHasSession {
			return &agent{name, client, map[string]*zk.Lock{}}, nil
		}
	}
	return nil, errors.New("there is no session")
}

// perform returns the words of the reply.
func (a *agent) perform(command string, arguments []string) ([]string, error) {
	switch {
	case command == "acquire" && len(arguments) == 1:
		return a.acquire(arguments[0])
	case command == "release" && len(arguments) == 1:
		return nil, a.lock(arguments[0]).Unlock()
	case command == "cycles" && len(arguments) == 4:
		return a.cycles(arguments)
	case command == "create" && len(arguments) == 1:
		return one(a.client.Create(arguments[0], nil, 0, everyone))
	case command == "delete" && len(arguments) == 1:
		return nil, a.client.Delete(arguments[0], -1)
	case command == "children" && len(arguments) == 1:
		children, _, err := a.client.Children(arguments[0])
		sort.Strings(children)
		return children, err
	case command == "stop" && len(arguments) == 0:
		a.client.Close()
		return nil, nil
	}
	return nil, fmt.Errorf("there is no command %q with %d arguments", command, len(arguments))
}

// lock returns the agent's only lock on this path.
func (a *agent) lock(path string) *zk.Lock {
	if a.locks[path] == nil {
		a.locks[path] = zk.NewLock(a.client, path, everyone)
	}
	return a.locks[path]
}

// acquire returns the name of the node that has the lock.
func (a *agent) acquire(path string) ([]string, error) {
	if err := a.lock(path).LockWithData([]byte(a.name)); err != nil {
		return nil, err
	}
	name, _, err := a.node(path)
	return one(name, err)
}

// node finds the node of this session, which a lock does not return.
func (a *agent) node(path string) (string, *zk.Stat, error) {
	children, _, err := a.client.Children(path)
	if err != nil {
		return "", nil, err
	}
	for _, child := range children {
		exists, stat, err := a.client.Exists(path + "/" + child)
		if err != nil {
			return "", nil, err
		}
		if exists && stat.EphemeralOwner == a.client.SessionID() {
			return child, stat, nil
		}
	}
	return "", nil, fmt.Errorf("this session has no node in %s", path)
}

// cycles takes the lock a number of times, at random moments. Each time it appends the creation zxid of its node to the
// log: reads the log, and writes it without a version check.
func (a *agent) cycles(arguments []string) ([]string, error) {
	path, log := arguments[0], arguments[1]
	count, err := strconv.Atoi(arguments[2])
	if err != nil {
		return nil, err
	}
	seed, err := strconv.ParseInt(arguments[3], 10, 64)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewSource(seed))
	for i := 0; i < count; i++ {
		time.Sleep(time.Duration(random.Int63n(int64(longestRest))))
		if _, err := a.acquire(path); err != nil {
			return nil, err
		}
		if err := a.write(path, log); err != nil {
			return nil, err
		}
		if err := a.lock(path).Unlock(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (a *agent) write(path, log string) error {
	_, node, err := a.node(path)
	if err != nil {
		return err
	}
	before, _, err := a.client.Get(log)
	if err != nil {
		return err
	}
	_, err = a.client.Set(log, []byte(fmt.Sprintf("%s %d", before, node.Czxid)), -1)
	return err
}

func one(word string, err error) ([]string, error) {
	return []string{word}, err
}

func main() {
	name, hosts := os.Args[1], os.Args[2]
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	agent, err := connect(name, hosts, time.Duration(seconds*float64(time.Second)))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("ok")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		answer, err := agent.perform(words[0], words[1:])
		if err != nil {
			answer = []string{"error", err.Error()}
		} else {
			answer = append([]string{"ok"}, answer...)
		}
		fmt.Println(strings.Join(answer, " "))
		if words[0] == "stop" {
			return
		}
	}
}
