import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.state.ConnectionStateErrorPolicy;
import org.apache.curator.framework.state.SessionConnectionStateErrorPolicy;
import org.apache.curator.framework.state.StandardConnectionStateErrorPolicy;

/**
 * A worker with Java Curator's leaders: a latch and a selector of a client with the standard error policy, and of a client with
 * the session error policy.
 *
 * A term is recorded as a hold. It is valid while `hasLeadership` of the latch or the selector is true. Like most users, the leader
 * of a latch does not check during its term whether it still leads; the leader of a selector stops when it is interrupted. Terms
 * have no tokens, as the worker sends no requests only for the checker.
 */
final class CuratorLeaders {
    /** The interval at which a waiting latch checks whether to finish, in milliseconds. */
    private static final int CHECK = 100;

    private final CuratorRun run;
    private final CuratorFramework client;
    private final String policy;
    private final CuratorRun.Part latches;
    private final CuratorRun.Part terms;
    private final LeaderSelector selector;
    private final Thread leading = new Thread(this::lead);
    private volatile LeaderLatch latch;
    private volatile boolean finishing;
    /** A time shortly before the selector joined the queue. */
    private volatile long asked;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CuratorRun run = new CuratorRun(input.readLine());
        List<CuratorLeaders> all = new ArrayList<>();
        all.add(new CuratorLeaders(run, "standard", "", new StandardConnectionStateErrorPolicy()));
        all.add(new CuratorLeaders(run, "session", "-session", new SessionConnectionStateErrorPolicy()));
        all.forEach(CuratorLeaders::start);
        try {
            while (input.readLine() != null) {}
        } catch (IOException gone) {
            // The same as the end of the input.
        }
        for (CuratorLeaders leaders : all) {
            leaders.finish();
        }
        System.exit(0);
    }

    private CuratorLeaders(CuratorRun run, String policy, String suffix, ConnectionStateErrorPolicy errors) {
        this.run = run;
        this.policy = policy;
        client = run.client().connectionStateErrorPolicy(errors).build();
        latches = new CuratorRun.Part(run, "curator-latch" + suffix, () -> latch.hasLeadership());
        terms = new CuratorRun.Part(run, "curator-selector" + suffix, this::selectorLeads);
        selector = new LeaderSelector(client, terms.path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework same) {
                term();
            }
        });
        selector.setId(run.name);
        selector.autoRequeue();
        client.getConnectionStateListenable().addListener((same, state) -> {
            if (state.isConnected()) {
                run.newSession(client, policy);
            }
        });
    }

    private void start() {
        client.start();
        latches.sample();
        terms.sample();
        asked = run.now();
        selector.start();
        leading.start();
    }

    private boolean selectorLeads() {
        return selector.hasLeadership();
    }

    /** A term of the selector. */
    private synchronized void term() {
        if (finishing) {
            return;
        }
        int hold = terms.begin(asked, run.session(policy), null);
        try {
            terms.update(hold);
        } catch (InterruptedException end) {
            terms.lost();
        }
        terms.releasing(hold);
        terms.released(hold, null);
        asked = run.now();
    }

    /** Runs one latch after the other, each for one term: a closed latch cannot be used again. */
    private void lead() {
        while (!finishing) {
            long joined = run.now();
            latch = new LeaderLatch(client, latches.path, run.name);
            try {
                latch.start();
                while (!latch.await(CHECK, TimeUnit.MILLISECONDS) && !finishing) {}
                if (latch.hasLeadership()) {
                    latchTerm(joined);
                } else {
                    latch.close();
                }
            } catch (Exception failure) {
                latches.notAcquired(joined, failure);
            }
        }
    }

    private void latchTerm(long joined) throws InterruptedException {
        int hold = latches.begin(joined, run.session(policy), null);
        latches.update(hold);
        latches.releasing(hold);
        Exception failure = null;
        try {
            latch.close();
        } catch (Exception error) {
            failure = error;
        }
        latches.released(hold, failure);
    }

    private void finish() throws InterruptedException {
        finishing = true;
        leading.join();
        // Waits until the last term has ended.
        synchronized (this) {
            selector.close();
        }
        client.close();
    }
}
