import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;

/** Curator's {@code CuratorCache}: loads a tree, follows changes, and reconnects after its connection was cut. */
final class CuratorBenchCache implements CuratorCacheListener {
    private final byte[] mark;
    private final int count;
    private final CountDownLatch initialized = new CountDownLatch(1);
    private final CountDownLatch current = new CountDownLatch(1);
    private final Set<String> marked = ConcurrentHashMap.newKeySet();
    private final AtomicLong events = new AtomicLong();

    private CuratorBenchCache(String mark, int count) {
        this.mark = String.format("%20s", mark).replace(' ', '0').getBytes(StandardCharsets.US_ASCII);
        this.count = count;
    }

    @Override
    public void event(Type type, ChildData before, ChildData now) {
        events.incrementAndGet();
        if (isMarked(now) && marked.add(now.getPath()) && marked.size() == count) {
            current.countDown();
        }
    }

    @Override
    public void initialized() {
        initialized.countDown();
    }

    static String run(CuratorFramework client, CuratorBenchRequest request, CuratorBenchCrowd.Conductor conductor)
            throws Exception {
        int nodes = request.number("nodes");
        boolean follows = !request.text("case").equals("cache-load");
        CuratorBenchCache listener =
                new CuratorBenchCache(request.text("mark"), follows ? request.number("marked") : 0);
        long before = heap();
        conductor.report("held");
        long begin = System.nanoTime();
        CuratorCache cache = CuratorCache.build(client, request.text("path"));
        cache.listenable().addListener(listener);
        cache.start();
        listener.initialized.await();
        long time = System.nanoTime() - begin;
        if (cache.size() != nodes + 1) {
            throw new IllegalStateException("the cache has " + cache.size() + " nodes instead of " + nodes + " and their directory");
        }
        listener.events.set(0);
        conductor.report("loaded nanoseconds=" + time);
        if (follows) {
            listener.follow(cache, conductor);
        }
        long heap = Math.max(0, heap() - before);
        cache.close();
        return CuratorBench.done(nodes, time) + " heap=" + heap;
    }

    /**
     * Waits until the cache has reported the last change of each node. The bench detects at the proxy when the cache sends no
     * more requests.
     */
    private void follow(CuratorCache cache, CuratorBenchCrowd.Conductor conductor) throws InterruptedException, IOException {
        current.await();
        long shown = cache.stream().filter(this::isMarked).count();
        if (shown != count) {
            throw new IllegalStateException("the cache shows " + shown + " of " + count + " changes");
        }
        conductor.report("current events=" + events.get());
    }

    private boolean isMarked(ChildData node) {
        return node != null
                && node.getData().length >= mark.length
                && Arrays.equals(mark, 0, mark.length, node.getData(), 0, mark.length);
    }

    /** The heap in use after a garbage collection, in bytes. */
    private static long heap() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
