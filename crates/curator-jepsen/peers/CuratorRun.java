import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;

/** The parts that all workers with Curator share: the parsed work, the history, and the holds of a part. */
final class CuratorRun {
    // In milliseconds, as in our workers.
    private static final int STORE_TIMEOUT = 10_000;
    private static final int SAMPLE_PERIOD = 20;

    final String name;
    private final String work;
    /** The start of each line of the history, after the time. */
    private final String who;
    private final FileOutputStream history;
    private final long began;
    private final long setNanos;
    private final int thinkMillis;
    private final long boottimeOffset;
    private final Random random = new Random();
    private final Map<String, Long> sessions = new HashMap<>();
    private int holds;

    CuratorRun(String work) throws IOException {
        this.work = work;
        long worker = number(work, "worker");
        long life = number(work, "life");
        name = "w" + worker + "." + life;
        who = ",\"worker\":" + worker + ",\"life\":" + life + ",";
        history = new FileOutputStream(text(work, "history"), true);
        began = number(work, "began");
        setNanos = number(work, "set_ms") * 1_000_000;
        thinkMillis = (int) number(work, "think_ms");
        boottimeOffset = number(work, "boottime_offset");
    }

    CuratorFrameworkFactory.Builder client() {
        return CuratorFrameworkFactory.builder()
                .connectString(text(work, "connect_string"))
                .sessionTimeoutMs((int) number(work, "session_timeout_ms"))
                .retryPolicy(new RetryForever(100));
    }

    /** The root of the nodes that caches copy. */
    String cached() {
        return text(work, "cached");
    }

    long now() {
        return System.nanoTime() + boottimeOffset;
    }

    synchronized long think() {
        return random.nextInt(thinkMillis + 1);
    }

    synchronized int nextHold() {
        return holds++;
    }

    /** Appends a line with the current time, in one write. The lines are in the order of their times. */
    void write(String what) {
        synchronized (history) {
            String line = "{\"at\":" + now() + who + what + "}\n";
            try {
                history.write(line.getBytes(StandardCharsets.UTF_8));
            } catch (IOException error) {
                System.err.println("curator: cannot write the history: " + error);
                Runtime.getRuntime().halt(1);
            }
        }
    }

    /** Records the client's session if it is new, with the name of the client if there are several. Returns the session. */
    long newSession(CuratorFramework client, String which) {
        synchronized (history) {
            try {
                long current = client.getZookeeperClient().getZooKeeper().getSessionId();
                if (current != 0 && !Long.valueOf(current).equals(sessions.put(which, current))) {
                    String of = which == null ? "" : ",\"client\":\"" + which + "\"";
                    write("\"what\":\"session\",\"session\":" + current + of);
                }
            } catch (Exception none) {
                // The next state change records the session.
            }
            return session(which);
        }
    }

    /** The latest recorded session of the client, or 0. */
    long session(String which) {
        synchronized (history) {
            return sessions.getOrDefault(which, 0L);
        }
    }

    /** One part of the work: records its holds, samples their validity until the first loss, and writes its sets. */
    static final class Part {
        final String key;
        final String path;
        private final CuratorRun run;
        private final BooleanSupplier isHeld;
        private final Store store;
        private Integer held;

        Part(CuratorRun run, String key, BooleanSupplier isHeld) {
            this.run = run;
            this.key = key;
            this.path = "/jepsen/" + key;
            this.isHeld = isHeld;
            store = new Store(text(run.work, "store"));
        }

        void notAcquired(long asked, Exception failure) {
            String error = failure == null ? "null" : quoted(failure);
            run.write("\"what\":\"not-acquired\",\"part\":\"" + key + "\",\"asked\":" + asked + ",\"error\":" + error);
        }

        synchronized int begin(long asked, long session, Long token) {
            held = run.nextHold();
            run.write("\"what\":\"acquired\",\"hold\":" + held + ",\"part\":\"" + key + "\",\"owner\":\"" + run.name
                    + "\",\"asked\":" + asked + ",\"session\":" + session + ",\"claims\":[{\"resource\":\"" + path
                    + "\",\"weight\":1,\"capacity\":1,\"token\":" + token + ",\"place\":" + token + "}],\"reentry\":false");
            int hold = held;
            sampleOnce();
            return hold;
        }

        synchronized void releasing(int hold) {
            sampleOnce();
            held = null;
            run.write("\"what\":\"releasing\",\"hold\":" + hold);
        }

        void released(int hold, Exception failure) {
            String error = failure == null ? "null" : quoted(failure);
            run.write("\"what\":\"released\",\"hold\":" + hold + ",\"error\":" + error);
        }

        synchronized void lost() {
            if (held != null) {
                run.write("\"what\":\"invalid\",\"hold\":" + held);
                held = null;
            }
        }

        private synchronized void sampleOnce() {
            if (held == null) {
                return;
            }
            long before = run.now();
            if (isHeld.getAsBoolean()) {
                run.write("\"what\":\"valid\",\"hold\":" + held + ",\"before\":" + before + ",\"until\":0");
            } else {
                lost();
            }
        }

        /** Starts a thread that samples the hold's validity periodically. */
        void sample() {
            Thread sampling = new Thread(() -> {
                try {
                    while (true) {
                        Thread.sleep(SAMPLE_PERIOD);
                        sampleOnce();
                    }
                } catch (InterruptedException never) {
                    Thread.currentThread().interrupt();
                }
            });
            sampling.setDaemon(true);
            sampling.start();
        }

        void update(int hold) throws InterruptedException {
            String set = key + "/" + (run.now() - run.began) / run.setNanos;
            List<String> elements = new ArrayList<>();
            try {
                String reply = store.request("{\"do\":\"read\",\"set\":\"" + set + "\",\"token\":null}");
                Matcher element = Pattern.compile("\"([^\"]*)\"").matcher(reply.substring(reply.indexOf('[')));
                while (element.find()) {
                    elements.add(element.group(1));
                }
            } catch (IOException | RuntimeException nothingRead) {
                return;
            }
            String element = run.name + "." + hold;
            elements.add(element);
            Thread.sleep(run.think());
            long checked = run.now();
            String outcome;
            try {
                String reply = store.request("{\"do\":\"write\",\"set\":\"" + set + "\",\"elements\":[\""
                        + String.join("\",\"", elements) + "\"],\"token\":null}");
                outcome = reply.contains("\"written\"") ? "acknowledged" : "refused";
            } catch (IOException noReply) {
                outcome = "unknown";
            }
            run.write("\"what\":\"wrote\",\"hold\":" + hold + ",\"part\":\"" + key + "\",\"set\":\"" + set
                    + "\",\"element\":\"" + element + "\",\"checked\":" + checked + ",\"until\":0,\"outcome\":\"" + outcome
                    + "\"");
        }
    }

    // Parses and formats JSON, as far as needed. Paths and names contain no characters that must be escaped.

    private static long number(String json, String key) {
        return Long.parseLong(found(json, key, "(-?\\d+)"));
    }

    private static String text(String json, String key) {
        return found(json, key, "\"([^\"\\\\]*)\"");
    }

    private static String found(String json, String key, String value) {
        Matcher matcher = Pattern.compile("\"" + key + "\":\\s*" + value).matcher(json);
        if (!matcher.find()) {
            throw new IllegalArgumentException("the work has no " + key + ": " + json);
        }
        return matcher.group(1);
    }

    private static String quoted(Exception error) {
        return "\"" + error.toString().replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"";
    }

    /** Sends one request at a time to the store. A connection with an abandoned request is not used again. */
    private static final class Store {
        private final InetSocketAddress address;
        private Socket socket;
        private BufferedReader replies;

        Store(String address) {
            int colon = address.lastIndexOf(':');
            this.address = new InetSocketAddress(
                    address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        }

        String request(String request) throws IOException {
            if (socket == null) {
                Socket connecting = new Socket();
                connecting.connect(address, STORE_TIMEOUT);
                connecting.setSoTimeout(STORE_TIMEOUT);
                connecting.setTcpNoDelay(true);
                replies = new BufferedReader(new InputStreamReader(connecting.getInputStream(), StandardCharsets.UTF_8));
                socket = connecting;
            }
            try {
                socket.getOutputStream().write((request + "\n").getBytes(StandardCharsets.UTF_8));
                String reply = replies.readLine();
                if (reply != null) {
                    return reply;
                }
            } catch (IOException error) {
                close();
                throw error;
            }
            close();
            throw new IOException("the store has closed the connection");
        }

        private void close() throws IOException {
            Socket old = socket;
            socket = null;
            old.close();
        }
    }
}
