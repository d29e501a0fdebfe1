import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.data.Stat;

/**
 * The work of `curator-jepsen worker` in the variant `plain`, with Java Curator's mutex.
 *
 * The first line of standard input is a `Work` as JSON (src/work.rs); at the end of the input, the worker finishes. It writes
 * the history that src/history.rs describes, and its sets are in the store of src/store/mod.rs. Like most users, the
 * worker does not check between acquire and release whether it still has the lock; the history contains what Curator would
 * report.
 */
public final class CuratorWorker {
    private static final String PART = "curator-plain";

    /** The pause after a failure, in milliseconds, as in our workers. */
    private static final int REST = 200;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CuratorWorker worker = new CuratorWorker(input.readLine());
        Thread work = Thread.currentThread();
        Thread end = new Thread(() -> {
            try {
                while (input.readLine() != null) {}
            } catch (IOException gone) {
                // The same as the end of the input.
            }
            worker.finish(work);
        });
        end.setDaemon(true);
        end.start();
        worker.run();
        System.exit(0);
    }

    /** A mutex that knows the path of its node, and sets the node's data. */
    private final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client) {
            super(client, "/jepsen/" + PART);
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return run.name.getBytes(StandardCharsets.UTF_8);
        }

        /** The number of the transaction that created the node, or null if it is unknown. */
        Long token() {
            try {
                Stat stat = client.checkExists().forPath(getLockPath());
                return stat == null ? null : stat.getCzxid();
            } catch (Exception unknown) {
                return null;
            }
        }
    }

    private final CuratorRun run;
    private final CuratorFramework client;
    private final Mutex mutex;
    private final CuratorRun.Part part;
    /** Initially connected, as the first acquire may return before the listener is called. */
    private volatile ConnectionState state = ConnectionState.CONNECTED;
    private volatile boolean finishing;
    private boolean acquiring;

    private CuratorWorker(String work) throws IOException {
        run = new CuratorRun(work);
        client = run.client().build();
        mutex = new Mutex(client);
        part = new CuratorRun.Part(run, PART, () -> mutex.isAcquiredInThisProcess() && state.isConnected());
        client.getConnectionStateListenable().addListener((same, newState) -> {
            state = newState;
            if (newState.isConnected()) {
                run.newSession(client, null);
            }
        });
    }

    // Work.

    private void run() throws Exception {
        client.start();
        part.sample();
        while (!finishing) {
            long rest = step() ? 0 : REST;
            // Also delays a worker that has to finish, but not for long.
            Thread.sleep(rest + run.think());
        }
        client.close();
    }

    /** Makes the worker finish: interrupts an acquire that waits. */
    private synchronized void finish(Thread work) {
        finishing = true;
        if (acquiring) {
            work.interrupt();
        }
    }

    private synchronized boolean startAcquiring() {
        acquiring = !finishing;
        return acquiring;
    }

    /** Called after an acquire: from here on, {@code finish} does not interrupt. */
    private synchronized void acquired() {
        acquiring = false;
        Thread.interrupted();
    }

    private boolean step() throws InterruptedException {
        long asked = run.now();
        if (!startAcquiring()) {
            return true;
        }
        Exception failure = null;
        try {
            mutex.acquire();
        } catch (Exception error) {
            failure = error;
        } finally {
            acquired();
        }
        if (failure != null) {
            part.notAcquired(asked, finishing ? null : failure);
            return false;
        }
        Long token = mutex.token();
        int hold = part.begin(asked, run.newSession(client, null), token);
        part.update(hold);
        part.releasing(hold);
        failure = null;
        try {
            mutex.release();
        } catch (Exception error) {
            failure = error;
        }
        part.released(hold, failure);
        return failure == null;
    }
}
