import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Calls the Java of docs/clients.md for servers, class Totals. */
class Story {
    public static void main(String[] args) throws Exception {
        Totals totals = new Totals();
        var shown = new LinkedBlockingQueue<Long>();
        var live = totals.watch("rollups/java", "count", shown::add);
        until(shown, 0);
        for (long n : new long[] {-2, 1, 1, 1, 1, 5}) totals.increment("java", n).get(); // the last total is the highest on the way
        until(shown, 7);
        live.remove();

        for (String uid : new String[] {"ann", "bob", "bob"}) totals.vote("java-votes", uid, true).get();
        totals.vote("java-votes", "ann", false).get();
        System.exit(0); // the SDK's threads go on
    }

    private static void until(LinkedBlockingQueue<Long> shown, long want) throws InterruptedException {
        for (Long total = null; total == null || total != want; ) {
            total = shown.poll(60, TimeUnit.SECONDS);
            if (total == null) throw new AssertionError("not shown: " + want);
        }
    }
}
