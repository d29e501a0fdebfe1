import java.io.IOException;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Many threads of one session wait for one lock, or each for a separate lock. */
final class CuratorBenchCrowd {
    /** Whether all waiters on one path share one lock object, instead of one object each. */
    static final boolean IS_SHARED = Boolean.getBoolean("curator-bench.shared");

    /** The interval between checks whether all waiters are in the queue, in milliseconds. */
    private static final int POLL = 10;

    /** The number of threads that check the queues, or create the holder's nodes, in parallel. */
    private static final int THREADS = 64;

    /** Reports the state of the run to the bench, and returns when the bench has sent `go`. */
    interface Conductor {
        void report(String line) throws IOException;
    }

    private CuratorBenchCrowd() {}

    /** Many threads of the session {@code waiting} wait for the locks that {@code holding} holds. */
    static String run(CuratorFramework waiting, CuratorFramework holding, CuratorBenchRequest request, Conductor conductor)
            throws Exception {
        int waiters = request.number("waiters");
        boolean each = "each".equals(request.values.get("paths"));
        List<String> paths = each ? request.paths(waiters) : List.of(request.text("path"));
        String[] held = new String[paths.size()];
        CuratorBenchTasks.all(Math.min(THREADS, paths.size()), first -> {
            for (int path = first; path < paths.size(); path += THREADS) {
                held[path] = hold(holding, request, paths.get(path));
            }
            return null;
        });
        conductor.report("held");
        CuratorBenchLock shared = IS_SHARED ? CuratorBenchLock.of(waiting, request, request.text("path")) : null;
        long begin = System.nanoTime();
        CuratorBenchTasks<Void> tasks = new CuratorBenchTasks<>(waiters, task -> {
            String path = paths.get(task % paths.size());
            (IS_SHARED ? shared : CuratorBenchLock.of(waiting, request, path)).cycle();
            return null;
        });
        CuratorBenchTasks.all(Math.min(THREADS, paths.size()), first -> {
            for (int path = first; path < paths.size(); path += THREADS) {
                awaitNodes(holding, paths.get(path), 1 + waiters / paths.size(), tasks, POLL);
            }
            return null;
        });
        conductor.report("queued nanoseconds=" + (System.nanoTime() - begin));
        begin = System.nanoTime();
        for (String node : held) {
            holding.delete().inBackground().forPath(node);
        }
        tasks.results();
        return CuratorBench.done(waiters, System.nanoTime() - begin);
    }

    /**
     * Creates a node in the lock's directory; this node holds the lock while it exists. With Curator's locks, each held lock
     * would need a thread, and all of them more memory than the measured waiters.
     */
    private static String hold(CuratorFramework client, CuratorBenchRequest request, String path) throws Exception {
        String name = request.text("lock").equals("write") ? "__WRIT__" : "lock-";
        return client.create()
                .creatingParentContainersIfNeeded()
                .withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath(path + "/" + name);
    }

    /** Waits until the directory has this many nodes. Fails if a task ends earlier. */
    static void awaitNodes(CuratorFramework client, String path, int nodes, CuratorBenchTasks<?> tasks, int poll)
            throws Exception {
        while (true) {
            Stat stat = client.checkExists().forPath(path);
            if (stat != null && stat.getNumChildren() >= nodes) {
                return;
            }
            tasks.checkAllRunning();
            Thread.sleep(poll);
        }
    }
}
