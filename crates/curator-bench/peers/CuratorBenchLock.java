import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;

/** A lock of Curator, of any kind. */
interface CuratorBenchLock {
    void acquire() throws Exception;

    void release() throws Exception;

    default void cycle() throws Exception {
        acquire();
        release();
    }

    /** The lock that the request names. */
    static CuratorBenchLock of(CuratorFramework client, CuratorBenchRequest request, String path) {
        switch (request.text("lock")) {
            case "mutex":
                return of(new InterProcessMutex(client, path));
            case "read":
                return of(new InterProcessReadWriteLock(client, path).readLock());
            case "write":
                return of(new InterProcessReadWriteLock(client, path).writeLock());
            case "semaphore":
                return semaphore(new InterProcessSemaphoreV2(client, path, 1));
            case "semaphore-mutex":
                return of(new InterProcessSemaphoreMutex(client, path));
            case "counter":
                return counter(new DistributedAtomicLong(client, path, new RetryNTimes(30, 5)));
            default:
                return of(new InterProcessMultiLock(client, request.paths(request.number("members"))));
        }
    }

    static CuratorBenchLock of(InterProcessLock lock) {
        return new CuratorBenchLock() {
            @Override
            public void acquire() throws Exception {
                lock.acquire();
            }

            @Override
            public void release() throws Exception {
                lock.release();
            }
        };
    }

    /** A counter that {@code acquire} increments. The retry policy is our client's default. */
    private static CuratorBenchLock counter(DistributedAtomicLong counter) {
        return new CuratorBenchLock() {
            @Override
            public void acquire() throws Exception {
                while (!counter.increment().succeeded()) {
                    // Other processes were first in all attempts.
                }
            }

            @Override
            public void release() {}
        };
    }

    private static CuratorBenchLock semaphore(InterProcessSemaphoreV2 semaphore) {
        return new CuratorBenchLock() {
            private Lease lease;

            @Override
            public void acquire() throws Exception {
                lease = semaphore.acquire();
            }

            @Override
            public void release() {
                semaphore.returnLease(lease);
            }
        };
    }
}
