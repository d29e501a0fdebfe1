import java.io.Closeable;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/** Curator's recipes other than locks. */
final class CuratorAgentRecipes {
    private final CuratorFramework client;
    private final String name;
    private final BlockingQueue<String> events;
    private final Map<String, Closeable> open = new HashMap<>();
    private final Map<String, DistributedDoubleBarrier> doubleBarriers = new HashMap<>();
    /** Its release lets the thread go on that {@code block-callbacks} has blocked. */
    private CountDownLatch callbacks;
    /** When the latest term on each path began, in nanoseconds of the system's monotonic clock. */
    private final Map<String, Long> since = new ConcurrentHashMap<>();

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
                        since.put(path, System.nanoTime());
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
                return open.get(path) instanceof LeaderSelector selector
                        ? selector.getLeader().getId()
                        : ((LeaderLatch) open.get(path)).getLeader().getId();
            case "participants-of":
                Collection<Participant> participants = open.get(path) instanceof LeaderSelector one
                        ? one.getParticipants()
                        : ((LeaderLatch) open.get(path)).getParticipants();
                return participants.stream().map(Participant::getId).collect(Collectors.toList());
            case "since":
                return since.get(path);
            case "select":
                LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                    @Override
                    public void takeLeadership(CuratorFramework same) throws InterruptedException {
                        since.put(path, System.nanoTime());
                        events.add("leader");
                        try {
                            // Waits until this thread is interrupted.
                            Thread.currentThread().join();
                        } finally {
                            events.add("not-leader");
                        }
                    }
                });
                selector.setId(name);
                selector.autoRequeue();
                selector.start();
                return keep(path, selector);
            case "interrupt":
                ((LeaderSelector) open.get(path)).interruptLeadership();
                return null;
            case "cache":
                CuratorCache cache = CuratorCache.build(client, path);
                cache.listenable().addListener((type, before, after) -> {
                    ChildData node = after == null ? before : after;
                    events.add(type + " " + node.getPath() + " " + new String(node.getData(), StandardCharsets.UTF_8));
                });
                cache.start();
                return keep(path, cache);
            case "persist":
                PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, path, bytes(with[1]));
                node.getListenable().addListener(created -> events.add("created " + created));
                node.start();
                return keep(path, node);
            case "persist-data":
                ((PersistentNode) open.get(path)).setData(bytes(with[1]));
                return null;
            case "member":
                GroupMember member = new GroupMember(client, path, name, bytes(with[1]));
                member.start();
                return keep(path, member);
            case "member-data":
                ((GroupMember) open.get(path)).setThisData(bytes(with[1]));
                return null;
            case "members":
                // In the order of their ids.
                Map<String, byte[]> members = new TreeMap<>(((GroupMember) open.get(path)).getCurrentMembers());
                return members.entrySet().stream()
                        .map(one -> one.getKey() + "=" + new String(one.getValue(), StandardCharsets.UTF_8))
                        .collect(Collectors.toList());
            case "add":
                return add(new DistributedAtomicLong(client, path, new RetryNTimes(100, 10)), with[1]);
            case "add-promoted":
                // After one attempt that meets contention, the recipe acquires the mutex, and makes one more attempt.
                PromotedToLock promoted = PromotedToLock.builder().lockPath(with[2]).build();
                return add(new DistributedAtomicLong(client, path, new RetryNTimes(0, 0), promoted), with[1]);
            case "barrier-set":
                new DistributedBarrier(client, path).setBarrier();
                return null;
            case "barrier-remove":
                new DistributedBarrier(client, path).removeBarrier();
                return null;
            case "barrier-wait":
                return new DistributedBarrier(client, path).waitOnBarrier(CuratorAgent.TIMEOUT, TimeUnit.SECONDS);
            case "enter":
                doubleBarriers.computeIfAbsent(
                        path, unused -> new DistributedDoubleBarrier(client, path, Integer.parseInt(with[1])));
                return doubleBarriers.get(path).enter(CuratorAgent.TIMEOUT, TimeUnit.SECONDS);
            case "leave":
                return doubleBarriers.get(path).leave(CuratorAgent.TIMEOUT, TimeUnit.SECONDS);
            case "block-callbacks":
                // The thread of `runSafe` is busy, as with a slow callback.
                callbacks = new CountDownLatch(1);
                client.runSafe(() -> await(callbacks));
                return null;
            case "unblock-callbacks":
                // The reply of a background operation follows all events before it.
                CountDownLatch replied = new CountDownLatch(1);
                client.checkExists().inBackground((same, event) -> replied.countDown()).forPath(path);
                await(replied);
                callbacks.countDown();
                return null;
            case "shut":
                open.remove(path).close();
                return null;
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private static Object add(DistributedAtomicLong number, String delta) throws Exception {
        AtomicValue<Long> added = number.add(Long.parseLong(delta));
        return List.of(added.succeeded(), added.preValue(), added.postValue());
    }

    private static void await(CountDownLatch latch) {
        try {
            if (!latch.await(CuratorAgent.TIMEOUT, TimeUnit.SECONDS)) {
                throw new IllegalStateException("too late");
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private Object keep(String path, Closeable recipe) {
        open.put(path, recipe);
        return null;
    }
}
