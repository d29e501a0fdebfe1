import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;

/** Curator's semaphores. A command gives the number of leases as a number, or as the path of a shared count. */
final class CuratorAgentSemaphores {
    private final CuratorFramework client;
    private final String name;
    private final BlockingQueue<String> events;
    private final Map<String, InterProcessSemaphoreV2> semaphores = new HashMap<>();
    private final Map<String, SharedCount> counts = new HashMap<>();
    private final Map<String, List<Lease>> leases = new HashMap<>();

    CuratorAgentSemaphores(CuratorFramework client, String name, BlockingQueue<String> events) {
        this.client = client;
        this.name = name;
        this.events = events;
    }

    Collection<String> participants(String path) throws Exception {
        return semaphores.get(path).getParticipantNodes();
    }

    private InterProcessSemaphoreV2 semaphore(String path, String number) throws Exception {
        InterProcessSemaphoreV2 known = semaphores.get(path);
        if (known == null) {
            known = number.startsWith("/")
                    ? new InterProcessSemaphoreV2(client, path, count(number))
                    : new InterProcessSemaphoreV2(client, path, Integer.parseInt(number));
            known.setNodeData(name.getBytes(StandardCharsets.UTF_8));
            semaphores.put(path, known);
        }
        return known;
    }

    SharedCount count(String path) throws Exception {
        SharedCount known = counts.get(path);
        if (known == null) {
            known = new SharedCount(client, path, 1);
            known.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader same, int number) {
                    events.add("count " + number);
                }

                @Override
                public void stateChanged(CuratorFramework same, ConnectionState state) {}
            });
            known.start();
            counts.put(path, known);
        }
        return known;
    }

    Object lease(String path, String number, int quantity) throws Exception {
        Collection<Lease> taken = semaphore(path, number).acquire(quantity, CuratorAgent.TIMEOUT, TimeUnit.SECONDS);
        if (taken == null) {
            return false;
        }
        leases.computeIfAbsent(path, unused -> new ArrayList<>()).addAll(taken);
        return true;
    }

    /** Gives all leases of this path back. Returns their number. */
    Object giveBack(String path) {
        List<Lease> held = leases.remove(path);
        semaphores.get(path).returnAll(held);
        return held.size();
    }

    /**
     * Takes and returns a lease a number of times. A holder of a lease has a node in the directory {@code holders}. Returns the
     * largest number of holders that were seen.
     */
    Object leases(String path, String number, String holders, int cycles, long seed) throws Exception {
        Random random = new Random(seed);
        int most = 0;
        for (int cycle = 0; cycle < cycles; cycle++) {
            CuratorAgent.roundTrips(client, random.nextInt(8));
            if (!Boolean.TRUE.equals(lease(path, number, 1))) {
                throw new IllegalStateException("no lease");
            }
            String holder = client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(holders + "/h-");
            most = Math.max(most, client.getChildren().forPath(holders).size());
            CuratorAgent.roundTrips(client, random.nextInt(3));
            client.delete().forPath(holder);
            giveBack(path);
        }
        return most;
    }
}
