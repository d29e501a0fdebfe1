import java.io.IOException;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** A crowd before one lock, or before a lock each. */
final class CuratorBenchCrowd {
    /** All waiters of a crowd on one path share one lock's object, and do not have one each. */
    static final boolean IS_SHARED = Boolean.getBoolean("curator-bench.shared");

    /** How often one looks whether all have come, in milliseconds. */
    private static final int POLL = 10;

    /** So many threads look at a path each, or take a lock. */
    private static final int LOOKING = 64;

    /** Is told how far the crowd is, and returns when it may go on. */
    interface Conductor {
        void tell(String line) throws IOException;
    }

    private CuratorBenchCrowd() {}

    /** Many threads wait over one session for what another has. */
    static String play(CuratorFramework waiting, CuratorFramework holding, CuratorBenchRequest request, Conductor conductor)
            throws Exception {
        int waiters = request.number("waiters");
        boolean each = "each".equals(request.values.get("paths"));
        List<String> paths = each ? request.paths(waiters) : List.of(request.text("path"));
        String[] held = new String[paths.size()];
        CuratorBenchTasks.all(Math.min(LOOKING, paths.size()), first -> {
            for (int path = first; path < paths.size(); path += LOOKING) {
                held[path] = hold(holding, request, paths.get(path));
            }
            return null;
        });
        conductor.tell("held");
        CuratorBenchLock shared = IS_SHARED ? CuratorBenchLock.of(waiting, request, request.text("path")) : null;
        long begin = System.nanoTime();
        CuratorBenchTasks<Void> tasks = new CuratorBenchTasks<>(waiters, task -> {
            String path = paths.get(task % paths.size());
            (IS_SHARED ? shared : CuratorBenchLock.of(waiting, request, path)).cycle();
            return null;
        });
        CuratorBenchTasks.all(Math.min(LOOKING, paths.size()), first -> {
            for (int path = first; path < paths.size(); path += LOOKING) {
                awaitNodes(holding, paths.get(path), 1 + waiters / paths.size(), tasks, POLL);
            }
            return null;
        });
        conductor.tell("queued nanoseconds=" + (System.nanoTime() - begin));
        begin = System.nanoTime();
        for (String node : held) {
            holding.delete().inBackground().forPath(node);
        }
        tasks.results();
        return CuratorBench.done(waiters, System.nanoTime() - begin);
    }

    /**
     * Puts a node into the directory that has the lock as long as it is there. A thread for each lock that is held is more
     * than what is measured needs.
     */
    private static String hold(CuratorFramework client, CuratorBenchRequest request, String path) throws Exception {
        String name = request.text("lock").equals("write") ? "__WRIT__" : "lock-";
        return client.create()
                .creatingParentContainersIfNeeded()
                .withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath(path + "/" + name);
    }

    /** Looks until there are so many nodes. That somebody waits no more is an error. */
    static void awaitNodes(CuratorFramework client, String path, int nodes, CuratorBenchTasks<?> tasks, int poll)
            throws Exception {
        while (true) {
            Stat stat = client.checkExists().forPath(path);
            if (stat != null && stat.getNumChildren() >= nodes) {
                return;
            }
            tasks.mustAllRun();
            Thread.sleep(poll);
        }
    }
}
