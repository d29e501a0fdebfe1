"""A kazoo client that executes commands: one command per line, one reply per line.

A reply is `ok`, optionally followed by words, or `error` and the name of kazoo's exception. The reply to a blocking
command is sent when it is done. `stop` closes the session and ends the program with status 0.

Usage: agent.py <name> <hosts> <session timeout in seconds>
"""

import logging
import random
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, LockTimeout

# The longest wait, in seconds. Only a failing test waits so long.
DEFAULT_TIMEOUT = 30

# The longest pause between two cycles, in seconds.
LONGEST_REST = 0.004

# The tests provoke kazoo's warnings, such as lost connections.
logging.disable(logging.CRITICAL)


class Agent:
    def __init__(self, name, hosts, timeout):
        self.name = name
        self.client = KazooClient(hosts=hosts, timeout=timeout)
        self.client.start(timeout=DEFAULT_TIMEOUT)
        self.locks = {}
        self.parties = {}

    # Locks. Each is known by its path and kind, so that it can be released.

    def _lock(self, kind, path):
        if (kind, path) not in self.locks:
            make = {
                "lock": self.client.Lock,
                "read": self.client.ReadLock,
                "write": self.client.WriteLock,
                # A lock that also waits for nodes that end as Curator's do.
                "patterned": lambda path, name: self.client.Lock(path, name, extra_lock_patterns=["lock-"]),
                "semaphore": lambda path, name: self.client.Semaphore(path, name, max_leases=2),
            }
            self.locks[kind, path] = make[kind](path, self.name)
        return self.locks[kind, path]

    def acquire(self, kind, path):
        try:
            return self._lock(kind, path).acquire(timeout=DEFAULT_TIMEOUT)
        except LockTimeout:
            return False

    def try_acquire(self, kind, path):
        return self._lock(kind, path).acquire(blocking=False)

    def release(self, kind, path):
        return self._lock(kind, path).release()

    def cycles(self, kind, path, log, count, seed):
        """Takes the lock `count` times, at random moments.

        Each time it appends the creation zxid of its node to the log: reads the log, and writes it without a version
        check.
        """
        lock = self._lock(kind, path)
        chance = random.Random(int(seed))
        for _ in range(int(count)):
            time.sleep(chance.uniform(0, LONGEST_REST))
            with lock:
                created = self.client.exists(path + "/" + lock.node).czxid
                before, _stat = self.client.get(log)
                self.client.set(log, before + b" %d" % created)

    # Nodes.

    def children(self, path):
        return sorted(self.client.get_children(path))

    # Membership. Each party is known by its kind and path.

    def _party(self, kind, path):
        if (kind, path) not in self.parties:
            make = {"party": self.client.Party, "shallow": self.client.ShallowParty}
            self.parties[kind, path] = make[kind](path, self.name)
        return self.parties[kind, path]

    def join(self, kind, path):
        self._party(kind, path).join()

    def leave(self, kind, path):
        self._party(kind, path).leave()

    def party(self, kind, path):
        return sorted(self._party(kind, path))

    # The session.

    def stop(self):
        self.client.stop()
        self.client.close()


def words(result):
    if result is None:
        return []
    if isinstance(result, (list, tuple)):
        return [str(word) for word in result]
    return [str(result)]


def main():
    name, hosts, timeout = sys.argv[1:]
    agent = Agent(name, hosts, float(timeout))
    print("ok", flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            answer = ["ok"] + words(getattr(agent, command)(*arguments))
        except KazooException as error:
            answer = ["error", type(error).__name__]
        print(*answer, flush=True)
        if command == "stop":
            return


main()
