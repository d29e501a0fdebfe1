import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;

/** Runs tasks in numbered threads. */
final class CuratorBenchTasks<T> {
    /**
     * Opened at the next request. Threads live until then, as the kernel drops the counts of context switches of a thread that
     * ends.
     */
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
                    // The thread may end.
                }
            };
            Thread thread = new Thread(stay, "task-" + i);
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** Runs the task in this many threads, and returns their results. */
    static <T> List<T> all(int count, Task<T> task) throws Exception {
        return new CuratorBenchTasks<>(count, task).results();
    }

    /** Lets the threads of earlier requests end. */
    static void endAll() {
        nextRequest.countDown();
        nextRequest = new CountDownLatch(1);
    }

    /** Returns when all tasks have ended. Throws the first error: other tasks may wait for the failed one for ever. */
    List<T> results() throws Exception {
        List<T> results = new ArrayList<>();
        while (results.size() < count) {
            results.add(ended.take().get());
        }
        return results;
    }

    /** Throws if a task has ended. */
    void checkAllRunning() throws Exception {
        FutureTask<T> task = ended.peek();
        if (task != null) {
            task.get();
            throw new IllegalStateException("a waiter has ended too early");
        }
    }
}
