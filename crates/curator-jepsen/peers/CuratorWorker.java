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
 * The first line of standard input is a `Work` as JSON (src/work.rs), and the end of the input tells it to finish. It writes
 * the history that src/history.rs describes, and its sets are in the store of src/store_protocol.rs. As most users do, it
 * asks nobody between acquire and release whether it still has the lock; what Curator would answer goes into the history.
 */
public final class CuratorWorker {
    private static final String PART = "curator-plain";

    /** After a failure, in milliseconds, as for our own workers. */
    private static final int REST = 200;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CuratorWorker worker = new CuratorWorker(input.readLine());
        Thread work = Thread.currentThread();
        Thread end = new Thread(() -> {
            try {
                while (input.readLine() != null) {}
            } catch (IOException gone) {
                // That is an end, too.
            }
            worker.finish(work);
        });
        end.setDaemon(true);
        end.start();
        worker.run();
        System.exit(0);
    }

    /** With the path of the node that it holds, and data of our own. */
    private final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client) {
            super(client, "/jepsen/" + PART);
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return run.name.getBytes(StandardCharsets.UTF_8);
        }

        /** The number of the transaction that has made the node, or null. */
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
    /** The first lock can come before the news that there is a connection. */
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
            // A finishing worker need not wait for this.
            Thread.sleep(rest + run.think());
        }
        client.close();
    }

    /** Ends an acquire that is waiting. */
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

    /** From here on, nobody interrupts. */
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
