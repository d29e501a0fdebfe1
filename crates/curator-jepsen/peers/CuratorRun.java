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

/** What a process was told, and where it writes what it sees: what the workers with Curator share. */
final class CuratorRun {
    // In milliseconds, as for our own workers.
    private static final int STORE_TIMEOUT = 10_000;
    private static final int SAMPLE_PERIOD = 20;

    final String name;
    private final String work;
    /** How each line begins, after the time. */
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

    /** The root of what caches copy. */
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

    /** One write of one line, and lines in the order of their times. */
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

    /** Writes down a session that was not there before; of which client, if there are several. Returns the current one. */
    long newSession(CuratorFramework client, String which) {
        synchronized (history) {
            try {
                long current = client.getZookeeperClient().getZooKeeper().getSessionId();
                if (current != 0 && !Long.valueOf(current).equals(sessions.put(which, current))) {
                    String of = which == null ? "" : ",\"client\":\"" + which + "\"";
                    write("\"what\":\"session\",\"session\":" + current + of);
                }
            } catch (Exception none) {
                // The next state change tells.
            }
            return session(which);
        }
    }

    /** The latest that is known. */
    long session(String which) {
        synchronized (history) {
            return sessions.getOrDefault(which, 0L);
        }
    }

    /** One part of the work: its holds, what the client believes of them until it once does not, and its sets. */
    static final class Part {
        final String key;
        final String path;
        private final CuratorRun run;
        private final BooleanSupplier believes;
        private final Store store;
        private Integer held;

        Part(CuratorRun run, String key, BooleanSupplier believes) {
            this.run = run;
            this.key = key;
            this.path = "/jepsen/" + key;
            this.believes = believes;
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
            ask();
            return hold;
        }

        synchronized void releasing(int hold) {
            ask();
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

        private synchronized void ask() {
            if (held == null) {
                return;
            }
            long before = run.now();
            if (believes.getAsBoolean()) {
                run.write("\"what\":\"valid\",\"hold\":" + held + ",\"before\":" + before + ",\"until\":0");
            } else {
                lost();
            }
        }

        /** Asks all the time, in a thread. */
        void sample() {
            Thread sampling = new Thread(() -> {
                try {
                    while (true) {
                        Thread.sleep(SAMPLE_PERIOD);
                        ask();
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
                String answer = store.ask("{\"do\":\"read\",\"set\":\"" + set + "\",\"token\":null}");
                Matcher element = Pattern.compile("\"([^\"]*)\"").matcher(answer.substring(answer.indexOf('[')));
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
                String answer = store.ask("{\"do\":\"write\",\"set\":\"" + set + "\",\"elements\":[\""
                        + String.join("\",\"", elements) + "\"],\"token\":null}");
                outcome = answer.contains("\"written\"") ? "acknowledged" : "refused";
            } catch (IOException noAnswer) {
                outcome = "unknown";
            }
            run.write("\"what\":\"wrote\",\"hold\":" + hold + ",\"part\":\"" + key + "\",\"set\":\"" + set
                    + "\",\"element\":\"" + element + "\",\"checked\":" + checked + ",\"until\":0,\"outcome\":\"" + outcome
                    + "\"");
        }
    }

    // A little JSON. Paths and names have nothing in them that would have to be escaped.

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

    /** Requests one by one. A connection whose answer was not awaited is not used again. */
    private static final class Store {
        private final InetSocketAddress address;
        private Socket socket;
        private BufferedReader answers;

        Store(String address) {
            int colon = address.lastIndexOf(':');
            this.address = new InetSocketAddress(
                    address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        }

        String ask(String request) throws IOException {
            if (socket == null) {
                Socket connecting = new Socket();
                connecting.connect(address, STORE_TIMEOUT);
                connecting.setSoTimeout(STORE_TIMEOUT);
                connecting.setTcpNoDelay(true);
                answers = new BufferedReader(new InputStreamReader(connecting.getInputStream(), StandardCharsets.UTF_8));
                socket = connecting;
            }
            try {
                socket.getOutputStream().write((request + "\n").getBytes(StandardCharsets.UTF_8));
                String answer = answers.readLine();
                if (answer != null) {
                    return answer;
                }
            } catch (IOException error) {
                close();
                throw error;
            }
            close();
            throw new IOException("the store has gone");
        }

        private void close() throws IOException {
            Socket old = socket;
            socket = null;
            old.close();
        }
    }
}
