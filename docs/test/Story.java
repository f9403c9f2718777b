import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Calls the Java of docs/clients.md for servers, class Totals. */
class Story {
    private static final Totals totals = new Totals();

    public static void main(String[] args) throws Exception {
        var counts = shown("rollups/java", "count");
        for (long n : new long[] {-2, 1, 1, 1, 1, 5}) { // the last total is the highest on the way
            totals.increment("java", n).get();
        }
        until(7, counts);
        check(7, totals.exact("counters/java/shards", "count"));

        var large = shown("rollups/java-large", "count");
        long more = Integer.MAX_VALUE + 1L; // than an int holds
        totals.increment("java-large", more).get();
        until(more, large);
        check(more, totals.exact("counters/java-large/shards", "count"));

        var likes = shown("posts/java", "likes");
        String[] users = {"ann", "bob", "bob", "ann", "cid"};
        boolean[] yes = {true, true, true, false, true};
        for (int i = 0; i < users.length; i++) {
            totals.vote("java-votes", users[i], yes[i]).get();
            totals.like("java", users[i], yes[i]).get();
        }
        until(2, likes);
        System.exit(0); // the SDK's threads go on
    }

    private static void check(long want, long got) {
        if (got != want) throw new AssertionError("the sum is " + got + ", want " + want);
    }

    private static LinkedBlockingQueue<Long> shown(String path, String field) throws InterruptedException {
        var shown = new LinkedBlockingQueue<Long>();
        totals.watch(path, field, shown::add);
        until(0, shown);
        return shown;
    }

    private static void until(long want, LinkedBlockingQueue<Long> shown) throws InterruptedException {
        for (Long total = null; total == null || total != want; ) {
            total = shown.poll(60, TimeUnit.SECONDS);
            if (total == null) throw new AssertionError("not shown: " + want);
        }
    }
}
