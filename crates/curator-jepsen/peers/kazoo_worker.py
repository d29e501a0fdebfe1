"""The work of `curator-jepsen worker` in the variant `plain`, with kazoo's lock.

The first line of standard input is a `Work` as JSON (src/work.rs); at the end of the input, the worker finishes. It writes
the history that src/history.rs describes, and its sets are in the store of src/store/mod.rs. Like most users, the
worker does not check between acquire and release whether it still has the lock; the history contains what kazoo would
report.
"""

import json
import logging
import os
import random
import socket
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError
from kazoo.retry import KazooRetry

PART = "kazoo-plain"
PATH = "/jepsen/" + PART

# In seconds, as in our workers.
STORE_TIMEOUT = 10
SAMPLE_PERIOD = 0.02
REST = 0.2

# Kazoo would log the faults of the run, such as lost connections.
logging.disable(logging.CRITICAL)


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class History:
    """Writes each event as one line, with one write."""

    def __init__(self, work):
        self.who = {"worker": work["worker"], "life": work["life"]}
        self.file = os.open(work["history"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        # Lines are in the order of their times.
        self.mutex = threading.Lock()

    def write(self, what, **fields):
        with self.mutex:
            event = {"at": now(), **self.who, "what": what, **fields}
            os.write(self.file, (json.dumps(event) + "\n").encode())


class Store:
    """Sends one request at a time to the store. A connection with an abandoned request is not used again."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.address = (host, int(port))
        self.connection = None

    def request(self, request):
        if self.connection is None:
            connection = socket.create_connection(self.address, STORE_TIMEOUT)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connection = connection.makefile("rwb")
        connection, self.connection = self.connection, None
        connection.write((json.dumps(request) + "\n").encode())
        connection.flush()
        line = connection.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the store has closed the connection")
        self.connection = connection
        return json.loads(line)


class Sampler(threading.Thread):
    """Samples periodically whether the lock is held, until it is lost."""

    def __init__(self, client, history):
        super().__init__(daemon=True)
        self.client, self.history = client, history
        self.mutex = threading.Lock()
        self.held = None

    def begin(self, hold, lock):
        with self.mutex:
            self.held = (hold, lock)
            self.sample()

    def end(self):
        with self.mutex:
            self.sample()
            self.held = None

    def sample(self):
        if self.held is None:
            return
        hold, lock = self.held
        before = now()
        if lock.is_acquired and self.client.state == "CONNECTED":
            self.history.write("valid", hold=hold, before=before, until=0)
        else:
            self.history.write("invalid", hold=hold)
            self.held = None

    def run(self):
        while True:
            time.sleep(SAMPLE_PERIOD)
            with self.mutex:
                self.sample()


class Worker:
    def __init__(self, work):
        self.work = work
        self.name = "w%d.%d" % (work["worker"], work["life"])
        self.history = History(work)
        self.store = Store(work["store"])
        self.client = KazooClient(
            hosts=work["connect_string"],
            timeout=work["session_timeout_ms"] / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1),
        )
        self.client.add_listener(self.changed)
        self.sampler = Sampler(self.client, self.history)
        self.finishing = threading.Event()
        self.lock = None
        self.holds = 0
        self.session = None

    def changed(self, state):
        session = self.client.client_id and self.client.client_id[0]
        if state == "CONNECTED" and session != self.session:
            self.session = session
            self.history.write("session", session=session)

    def finish(self):
        """Makes the worker finish: cancels an acquire that waits. Called in a separate thread."""
        self.finishing.set()
        while (lock := self.lock) is not None:
            lock.cancel()
            time.sleep(0.1)

    def run(self):
        self.client.start_async()
        self.sampler.start()
        while not self.finishing.is_set():
            if not self.client.connected:
                time.sleep(SAMPLE_PERIOD)
                continue
            rest = 0 if self.step() else REST
            self.finishing.wait(rest + self.think())
        self.client.stop()
        self.client.close()

    def step(self):
        asked = now()
        lock = self.client.Lock(PATH, self.name)
        try:
            self.lock = lock
            acquired = not self.finishing.is_set() and lock.acquire()
        except CancelledError:
            acquired = False
        except Exception as error:
            self.history.write("not-acquired", part=PART, asked=asked, error=repr(error))
            return False
        finally:
            self.lock = None
        if not acquired:
            self.history.write("not-acquired", part=PART, asked=asked, error=None)
            return True
        hold, self.holds = self.holds, self.holds + 1
        token = self.token(lock)
        claim = {"resource": PATH, "weight": 1, "capacity": 1, "token": token, "place": token}
        session = self.client.client_id[0] if self.client.client_id else 0
        self.history.write(
            "acquired",
            hold=hold,
            part=PART,
            owner=self.name,
            asked=asked,
            session=session,
            claims=[claim],
            reentry=False,
        )
        self.sampler.begin(hold, lock)
        self.update(hold)
        self.sampler.end()
        self.history.write("releasing", hold=hold)
        try:
            lock.release()
            error = None
        except Exception as failure:
            error = repr(failure)
        self.history.write("released", hold=hold, error=error)
        return error is None

    def token(self, lock):
        try:
            return self.client.exists(PATH + "/" + lock.node).czxid
        except Exception:
            return None

    def update(self, hold):
        set_name = "%s/%d" % (PART, (now() - self.work["began"]) // (self.work["set_ms"] * 1_000_000))
        try:
            reply = self.store.request({"do": "read", "set": set_name, "token": None})
        except OSError:
            return
        element = "%s.%d" % (self.name, hold)
        time.sleep(self.think())
        checked = now()
        elements = reply["elements"] + [element]
        try:
            reply = self.store.request({"do": "write", "set": set_name, "elements": elements, "token": None})
            outcome = "acknowledged" if reply["is"] == "written" else "refused"
        except OSError:
            outcome = "unknown"
        self.history.write(
            "wrote",
            hold=hold,
            part=PART,
            set=set_name,
            element=element,
            checked=checked,
            until=0,
            outcome=outcome,
        )

    def think(self):
        return random.random() * self.work["think_ms"] / 1000


def main():
    worker = Worker(json.loads(sys.stdin.readline()))

    def wait_for_the_end():
        sys.stdin.read()
        worker.finish()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
