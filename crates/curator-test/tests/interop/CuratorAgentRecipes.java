import java.io.Closeable;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/** Curator's recipes that are no locks. */
final class CuratorAgentRecipes {
    private final CuratorFramework client;
    private final String name;
    private final BlockingQueue<String> events;
    private final Map<String, Closeable> open = new HashMap<>();

    CuratorAgentRecipes(CuratorFramework client, String name, BlockingQueue<String> events) {
        this.client = client;
        this.name = name;
        this.events = events;
    }

    Object run(String verb, String... with) throws Exception {
        String path = with[0];
        switch (verb) {
            case "latch":
                LeaderLatch latch = new LeaderLatch(client, path, name);
                latch.addListener(new LeaderLatchListener() {
                    @Override
                    public void isLeader() {
                        events.add("leader");
                    }

                    @Override
                    public void notLeader() {
                        events.add("not-leader");
                    }
                });
                latch.start();
                return keep(path, latch);
            case "leader":
                return ((LeaderLatch) open.get(path)).getLeader().getId();
            case "cache":
                CuratorCache cache = CuratorCache.build(client, path);
                cache.listenable().addListener((type, before, after) -> {
                    ChildData node = after == null ? before : after;
                    events.add(type + " " + node.getPath() + " " + new String(node.getData(), StandardCharsets.UTF_8));
                });
                cache.start();
                return keep(path, cache);
            case "persistent":
                byte[] data = with[1].getBytes(StandardCharsets.UTF_8);
                PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, path, data);
                node.start();
                if (!node.waitForInitialCreate(CuratorAgent.TIMEOUT, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("not created");
                }
                return keep(path, node);
            case "add":
                return add(path, Integer.parseInt(with[1]));
            case "shut":
                open.remove(path).close();
                return null;
            case "set-barrier":
                new DistributedBarrier(client, path).setBarrier();
                return null;
            case "remove-barrier":
                new DistributedBarrier(client, path).removeBarrier();
                return null;
            case "wait-on-barrier":
                // With a bound, it would look again at its end, and not need the watch.
                new DistributedBarrier(client, path).waitOnBarrier();
                return null;
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private Object keep(String path, Closeable recipe) {
        open.put(path, recipe);
        return null;
    }

    /** Adds one so many times. Returns the last number. */
    private Object add(String path, int times) throws Exception {
        DistributedAtomicLong number = new DistributedAtomicLong(client, path, new RetryNTimes(10_000, 1));
        long last = 0;
        for (int i = 0; i < times; i++) {
            AtomicValue<Long> added = number.increment();
            if (!added.succeeded()) {
                throw new IllegalStateException("not added");
            }
            last = added.postValue();
        }
        return last;
    }
}
