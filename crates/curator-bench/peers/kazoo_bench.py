"""The curator-bench worker for kazoo: runs its locks, tree cache and counter.

Reads one request per line and writes one reply per line (src/protocol.rs defines both).

The locks are used as kazoo's documentation shows, with its default handler. A task is a thread.

Usage: kazoo_bench.py <connect string> <session timeout in milliseconds>
"""

import logging
import os
import queue
import sys
import threading
import time
import uuid

from kazoo.client import KazooClient
from kazoo.recipe.cache import TreeCache, TreeEvent

# The interval between checks whether all readers, or all waiters of a crowd, are in the queue, in seconds.
POLL = 0.001
CROWD_POLL = 0.01
# The number of paths that are checked in parallel, and of threads that create the holder's nodes.
PARALLEL = 64
NANOSECONDS = 1_000_000_000

# In seconds. Long, as the start of a session is not measured.
START_TIMEOUT = 30

NO_SUCH_LOCK = {
    "semaphore-mutex": "kazoo has no semaphore mutex",
    "multi": "kazoo has no multi-lock",
    "receipt": "kazoo's counter keeps no receipt",
    "discovery": "kazoo has no service discovery",
}
LOCKS = ["mutex", "read", "write", "semaphore"]
CACHES = ("cache-load", "cache-storm", "cache-reconnect")

logging.disable(logging.CRITICAL)


class Tasks:
    """Numbered threads, and the values that they return.

    The threads live until the next request, as the kernel drops the counts of context switches of a thread that ends.
    """

    next_request = threading.Event()

    @classmethod
    def end_all(cls):
        cls.next_request.set()
        cls.next_request = threading.Event()

    def __init__(self, count, task):
        self.next_request = Tasks.next_request
        self.results = [None] * count
        self.error = None
        self.ends = queue.SimpleQueue()
        self.threads = [threading.Thread(target=self._run, args=(task, i), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, task, number):
        try:
            self.results[number] = task(number)
        except Exception as error:
            self.error = error
        finally:
            self.ends.put(number)
        self.next_request.wait()

    def join(self):
        """Returns when all tasks have ended. Raises the first error, as the other tasks may wait for ever for one that failed."""
        for _ in self.threads:
            self.ends.get()
            if self.error is not None:
                raise self.error
        return self.results

    def check_all_running(self):
        """Raises an error if a task has ended."""
        if not self.ends.empty():
            raise self.error or RuntimeError("a waiter has ended too early")


def run_all(count, task):
    return Tasks(count, task).join()


def unsupported(request):
    """Why this worker cannot run the request, or None if it can."""
    case, lock = request.get("case"), request.get("lock")
    if lock == "cache" or case in CACHES:
        return None if lock == "cache" and case in CACHES else "a cache has only the operations cache-load, cache-storm and cache-reconnect"
    if lock == "counter":
        return None if case == "increment" else "a counter has only the operation increment"
    if lock in NO_SUCH_LOCK:
        return NO_SUCH_LOCK[lock]
    if lock not in LOCKS:
        return "kazoo has no lock %r" % lock
    if case in ("cycle", "distinct", "handover"):
        return None
    if case == "reentry":
        return "kazoo's locks are not reentrant"
    if case == "readers":
        return None if lock == "read" else "the operation readers needs the lock `read`"
    if case in ("crowd", "reconnect"):
        return None if lock in ("mutex", "write") else "the lock's queue is not the list of the path's children"
    return "unknown operation %r" % case


def make(client, request, path):
    lock = request["lock"]
    if lock == "semaphore":
        return client.Semaphore(path, max_leases=1)
    if lock == "counter":
        return Counting(client.Counter(path))
    return {"mutex": client.Lock, "read": client.ReadLock, "write": client.WriteLock}[lock](path)


class Counting:
    """A counter, used as a lock: `__enter__` increments it."""

    def __init__(self, counter):
        self.counter = counter

    def __enter__(self):
        self.counter += 1

    def __exit__(self, *_):
        pass


def cycle(lock):
    with lock:
        pass


def done(operations, nanoseconds):
    return "done operations=%d nanoseconds=%d" % (operations, nanoseconds)


def members(path, count):
    return ["%s/%d" % (path, i) for i in range(count)]


class Listener:
    """Sets `initialized` when a tree cache has all nodes, and `current` when it has the last change of each changed node.

    The data of the last changes begin with the mark.
    """

    CHANGES = (TreeEvent.NODE_ADDED, TreeEvent.NODE_UPDATED, TreeEvent.NODE_REMOVED)

    def __init__(self, mark, count):
        self.mark, self.count = mark, count
        self.initialized, self.current = threading.Event(), threading.Event()
        self.marked = set()
        self.events = 0

    def __call__(self, event):
        if event.event_type == TreeEvent.INITIALIZED:
            self.initialized.set()
        if event.event_type not in self.CHANGES:
            return
        self.events += 1
        if event.event_data.data.startswith(self.mark):
            self.marked.add(event.event_data.path)
            if len(self.marked) == self.count:
                self.current.set()


class Worker:
    def __init__(self, hosts, timeout):
        self.hosts = hosts
        self.timeout = timeout
        self.sessions = []

    def serve(self):
        for line in sys.stdin:
            Tasks.end_all()
            try:
                reply = self.reply(line)
            except Exception as error:
                reply = "error " + " ".join(repr(error).split())
            print(reply, flush=True)
        for client in self.sessions:
            client.stop()

    def reply(self, line):
        verb, *words = line.split()
        request = dict(word.split("=", 1) for word in words)
        if verb == "open":
            return self.open(request)
        if verb not in ("supports", "run"):
            raise ValueError("unknown request " + verb)
        why = unsupported(request)
        if verb == "supports":
            return "no " + why if why else "yes"
        if why:
            raise ValueError(why)
        methods = dict.fromkeys(CACHES, "cache")
        methods.update(reconnect="crowd", increment="handover")
        return getattr(self, methods.get(request["case"], request["case"]))(request)

    def open(self, request):
        for _ in range(int(request["sessions"])):
            client = KazooClient(hosts=request.get("connect", self.hosts), timeout=self.timeout)
            client.start(timeout=START_TIMEOUT)
            self.sessions.append(client)
        return "ok"

    # Cases.

    def cycle(self, request):
        return self.repeat([request["path"]], request)

    def distinct(self, request):
        return self.repeat(members(request["path"], int(request["tasks"])), request)

    def repeat(self, paths, request):
        """All tasks repeat their cycles until the time is over."""
        length = float(request["seconds"]) * NANOSECONDS
        ready = threading.Barrier(len(paths))

        def task(number):
            lock = make(self.sessions[0], request, paths[number])
            cycle(lock)
            ready.wait()
            begin, operations, passed = time.monotonic_ns(), 0, 0
            while passed < length:
                cycle(lock)
                operations += 1
                passed = time.monotonic_ns() - begin
            return operations, passed

        results = run_all(len(paths), task)
        return done(sum(operations for operations, _ in results), max(passed for _, passed in results))

    def handover(self, request):
        length, count = float(request["seconds"]) * NANOSECONDS, int(request["sessions"])
        self.need(count)
        if "start" in request:
            # With several processes, the warm-up has created the directories.
            time.sleep(max(0, int(request["start"]) / 1000 - time.time()))
        else:
            cycle(make(self.sessions[0], request, request["path"]))
        ready = threading.Barrier(count)

        def task(number):
            lock = make(self.sessions[number], request, request["path"])
            ready.wait()
            begin, operations = time.monotonic_ns(), 0
            while True:
                with lock:
                    has_ended = time.monotonic_ns() - begin >= length
                if has_ended:
                    return operations
                operations += 1

        return done(sum(run_all(count, task)), length)

    def readers(self, request):
        """In each round all readers wait for the writer, whose session is the first one after theirs."""
        count, rounds, path = int(request["sessions"]), int(request["rounds"]), request["path"]
        self.need(count + 1)
        writing = self.sessions[count]
        writer = writing.WriteLock(path)

        def task(number):
            with self.sessions[number].ReadLock(path):
                return time.monotonic_ns()

        total = 0
        for _ in range(rounds):
            writer.acquire()
            reading = Tasks(count, task)
            self.until_queued(writing, [path], count + 1, reading, POLL)
            released = time.monotonic_ns()
            writer.release()
            total += max(reading.join()) - released
        return done(count * rounds, total)

    def crowd(self, request):
        """Many threads of session 0 wait for the locks that session 1 holds."""
        self.need(2)
        waiting, holding = self.sessions[:2]
        count = int(request["waiters"])
        paths = members(request["path"], count) if request.get("paths") == "each" else [request["path"]]
        held = [None] * len(paths)

        def hold(first):
            for number in range(first, len(paths), PARALLEL):
                held[number] = self.hold(holding, paths[number])

        run_all(min(PARALLEL, len(paths)), hold)
        print("held", flush=True)
        self.await_go()
        begin = time.monotonic_ns()
        tasks = Tasks(count, lambda number: cycle(make(waiting, request, paths[number % len(paths)])))
        self.until_queued(holding, paths, 1 + count // len(paths), tasks, CROWD_POLL)
        print("queued nanoseconds=%d" % (time.monotonic_ns() - begin), flush=True)
        self.await_go()
        begin = time.monotonic_ns()
        for deleted in [holding.delete_async(node) for node in held]:
            deleted.get()
        tasks.join()
        return done(count, time.monotonic_ns() - begin)

    def cache(self, request):
        """A tree cache loads a tree, and follows changes until it has the last change of each node."""
        nodes, path = int(request["nodes"]), request["path"]
        follows = request["case"] != "cache-load"
        listener = Listener(request["mark"].zfill(20).encode(), int(request["marked"]) if follows else 0)
        print("held", flush=True)
        self.await_go()
        begin = time.monotonic_ns()
        cache = TreeCache(self.sessions[0], path)
        cache.listen(listener)
        cache.start()
        listener.initialized.wait()
        passed = time.monotonic_ns() - begin
        children = cache.get_children(path)
        if len(children) != nodes:
            raise RuntimeError("the cache has %d nodes instead of %d" % (len(children), nodes))
        listener.events = 0
        print("loaded nanoseconds=%d" % passed, flush=True)
        self.await_go()
        if follows:
            listener.current.wait()
            shown = [cache.get_data(path + "/" + child).data.startswith(listener.mark) for child in children]
            if sum(shown) != listener.count:
                raise RuntimeError("the cache shows %d of %d changes" % (sum(shown), listener.count))
            print("current events=%d" % listener.events, flush=True)
            self.await_go()
        cache.close()
        return done(nodes, passed)

    @staticmethod
    def await_go():
        line = sys.stdin.readline().strip()
        if line != "go":
            raise ValueError("expected `go`, got %r" % line)

    @staticmethod
    def hold(client, path):
        """Creates a node in the lock's directory; this node holds the lock while it exists."""
        return client.create(path + "/" + uuid.uuid4().hex + "__lock__", ephemeral=True, sequence=True, makepath=True)

    @staticmethod
    def until_queued(client, paths, nodes, tasks, poll):
        """Waits until each directory has this many nodes. Fails if a task ends earlier."""
        for first in range(0, len(paths), PARALLEL):
            left = paths[first : first + PARALLEL]
            while left:
                stats = [client.exists_async(path) for path in left]
                left = [path for path, stat in zip(left, stats) if stat.get() is None or stat.get().numChildren < nodes]
                tasks.check_all_running()
                if left:
                    time.sleep(poll)

    def need(self, count):
        if len(self.sessions) < count:
            raise ValueError("the request needs %d sessions, but %d are open" % (count, len(self.sessions)))


def main():
    hosts, timeout = sys.argv[1:]
    Worker(hosts, int(timeout) / 1000).serve()
    # After an error, threads may wait for ever; they would keep the process alive.
    os._exit(0)


main()
