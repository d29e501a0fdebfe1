"""A worker with kazoo's TreeCache of the nodes that our workers write to. It only reads.

The history contains the events that the cache's listener receives, in that order, and the content of the cache when
the conductor requests it.
"""

import json
import sys

from kazoo.client import KazooClient
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.retry import KazooRetry

from kazoo_worker import History, now

PART = "kazoo-cache"
LOOK = "look "


def node(data):
    stat = data.stat
    return {"path": data.path, "czxid": stat.czxid, "mzxid": stat.mzxid, "data": (data.data or b"").decode()}


class Caches:
    def __init__(self, work):
        self.history = History(work)
        self.root = work["cached"]
        self.session = None
        self.client = KazooClient(
            hosts=work["connect_string"],
            timeout=work["session_timeout_ms"] / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1),
        )
        self.client.add_listener(self.changed)
        self.cache = TreeCache(self.client, self.root)
        self.cache.listen(self.received)

    def changed(self, state):
        session = self.client.client_id and self.client.client_id[0]
        if state == "CONNECTED" and session != self.session:
            self.session = session
            self.history.write("session", session=session)

    def record(self, what, **fields):
        self.history.write("cache", part=PART, cache=what, **fields)

    def received(self, event):
        if event.event_type == TreeEvent.NODE_ADDED:
            self.record("created", node=node(event.event_data))
        elif event.event_type == TreeEvent.NODE_UPDATED:
            self.record("changed", old=None, node=node(event.event_data))
        elif event.event_type == TreeEvent.NODE_REMOVED:
            self.record("deleted", node=node(event.event_data))
        elif event.event_type == TreeEvent.INITIALIZED:
            self.record("ready")

    def look(self, number):
        asked, nodes, paths = now(), [], [self.root]
        while paths:
            path = paths.pop()
            data = self.cache.get_data(path)
            if data is not None:
                nodes.append(node(data))
            paths.extend(path + "/" + child for child in self.cache.get_children(path) or ())
        self.record("snapshot", asked=asked, look=number, nodes=nodes)

    def run(self):
        self.client.start(timeout=60)
        self.cache.start()
        for line in sys.stdin:
            if line.startswith(LOOK):
                self.look(int(line[len(LOOK) :]))
        self.cache.close()
        self.client.stop()
        self.client.close()


if __name__ == "__main__":
    Caches(json.loads(sys.stdin.readline())).run()
