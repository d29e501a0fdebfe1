import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.retry.RetryNTimes;

/**
 * A worker with Java Curator's counter: increments by one, as our workers do.
 *
 * According to Curator, an increment without success was not applied; after an exception, the outcome is unknown.
 */
final class CuratorCounters {
    private static final String PART = "curator-counter";
    private static final String PATH = "/jepsen-counters/" + PART;

    /** How long an increment may still take when the process has to finish, in milliseconds. */
    private static final long FINISH_TIMEOUT = 10_000;

    private static volatile boolean finishing;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CuratorRun run = new CuratorRun(input.readLine());
        CuratorFramework client = run.client().build();
        client.getConnectionStateListenable().addListener((same, state) -> {
            if (state.isConnected()) {
                run.newSession(client, null);
            }
        });
        client.start();
        DistributedAtomicLong counter = new DistributedAtomicLong(client, PATH, new RetryNTimes(100, 10));
        Thread counting = new Thread(() -> count(run, counter));
        counting.setDaemon(true);
        counting.start();
        while (input.readLine() != null) {
            // The conductor's requests are for caches only.
        }
        finishing = true;
        counting.join(FINISH_TIMEOUT);
        client.close();
        System.exit(0);
    }

    private static void count(CuratorRun run, DistributedAtomicLong counter) {
        try {
            for (long number = 0; !finishing; number++) {
                record(run, "counting", "\"number\":" + number);
                String value = "null";
                String outcome;
                try {
                    AtomicValue<Long> changed = counter.increment();
                    outcome = changed.succeeded() ? "acknowledged" : "refused";
                    value = changed.succeeded() ? changed.postValue().toString() : value;
                } catch (InterruptedException end) {
                    throw end;
                } catch (Exception failure) {
                    outcome = "unknown";
                }
                record(run, "counted", "\"number\":" + number + ",\"value\":" + value + ",\"outcome\":\"" + outcome + "\"");
                Thread.sleep(run.think() / 10);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    private static void record(CuratorRun run, String what, String fields) {
        run.write("\"what\":\"counter\",\"part\":\"" + PART + "\",\"counter\":\"" + what + "\"," + fields);
    }
}
