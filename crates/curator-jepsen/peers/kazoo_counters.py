"""A worker with kazoo's counter, in the format of Curator's `SharedCount`: increments by one, as our workers do."""

import json
import random
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from kazoo_worker import History

PART = "kazoo-counter"
PATH = "/jepsen-counters/" + PART

# How long an increment may still take when the process has to finish, in seconds.
FINISH_TIMEOUT = 10


class Counters:
    def __init__(self, work):
        self.think = work["think_ms"] / 1000
        self.history = History(work)
        self.finishing = threading.Event()
        self.session = None
        self.client = KazooClient(
            hosts=work["connect_string"],
            timeout=work["session_timeout_ms"] / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1),
        )
        self.client.add_listener(self.changed)

    def changed(self, state):
        session = self.client.client_id and self.client.client_id[0]
        if state == "CONNECTED" and session != self.session:
            self.session = session
            self.history.write("session", session=session)

    def record(self, what, **fields):
        self.history.write("counter", part=PART, counter=what, **fields)

    def count(self):
        counter = self.client.Counter(PATH, support_curator=True)
        number = 0
        while not self.finishing.is_set():
            self.record("counting", number=number)
            try:
                counter += 1
                self.record("counted", number=number, value=counter.post_value, outcome="acknowledged")
            except Exception:
                self.record("counted", number=number, value=None, outcome="unknown")
            number += 1
            time.sleep(random.random() * self.think / 10)

    def run(self):
        self.client.start(timeout=60)
        counting = threading.Thread(target=self.count, daemon=True)
        counting.start()
        sys.stdin.read()
        self.finishing.set()
        counting.join(FINISH_TIMEOUT)
        self.client.stop()
        self.client.close()


if __name__ == "__main__":
    Counters(json.loads(sys.stdin.readline())).run()
