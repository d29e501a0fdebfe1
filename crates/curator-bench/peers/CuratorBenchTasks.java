import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;

/** Threads, each with a number. */
final class CuratorBenchTasks<T> {
    /** Threads whose tasks are done wait for it: the system forgets the context switches of a thread that has ended. */
    private static volatile CountDownLatch nextRequest = new CountDownLatch(1);

    interface Task<T> {
        T run(int number) throws Exception;
    }

    private final int count;
    private final BlockingQueue<FutureTask<T>> ended = new LinkedBlockingQueue<>();

    CuratorBenchTasks(int count, Task<T> task) {
        this.count = count;
        for (int i = 0; i < count; i++) {
            int number = i;
            FutureTask<T> started = new FutureTask<T>(() -> task.run(number)) {
                @Override
                protected void done() {
                    ended.add(this);
                }
            };
            CountDownLatch next = nextRequest;
            Runnable stay = () -> {
                started.run();
                try {
                    next.await();
                } catch (InterruptedException error) {
                    // It need not stay.
                }
            };
            Thread thread = new Thread(stay, "task-" + i);
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** Starts so many and waits for their results. */
    static <T> List<T> all(int count, Task<T> task) throws Exception {
        return new CuratorBenchTasks<>(count, task).results();
    }

    /** Those of earlier requests may end. */
    static void letGo() {
        nextRequest.countDown();
        nextRequest = new CountDownLatch(1);
    }

    /** Returns when the last one has ended, or one has failed: others may wait for that one for ever. */
    List<T> results() throws Exception {
        List<T> results = new ArrayList<>();
        while (results.size() < count) {
            results.add(ended.take().get());
        }
        return results;
    }

    void mustAllRun() throws Exception {
        FutureTask<T> task = ended.peek();
        if (task != null) {
            task.get();
            throw new IllegalStateException("somebody has not waited");
        }
    }
}
