import com.google.cloud.firestore.AggregateField;
import com.google.cloud.firestore.FirestoreOptions;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Runs the Java of docs/clients.md for servers, which class Totals has. */
class Story {
    public static void main(String[] args) throws Exception {
        var db = FirestoreOptions.getDefaultInstance().getService();
        var shown = new LinkedBlockingQueue<Long>();
        for (String uid : new String[] {"ann", "bob", "cid"}) {
            Totals.run(db, uid, shown::add);
        }
        var likes = new LinkedBlockingQueue<Long>();
        db.document("posts/java").addSnapshotListener((post, error) -> {
            if (post != null && post.contains("likes")) likes.add(post.getLong("likes"));
        });
        until3(shown);
        until3(likes);
        AggregateField sum = AggregateField.sum("count");
        long exact = db.collection("counters/java/shards").aggregate(sum).get().get().getLong(sum);
        if (exact != 3) throw new AssertionError("the sum is " + exact + ", want 3");
        System.exit(0); // the SDK's threads go on
    }

    private static void until3(LinkedBlockingQueue<Long> shown) throws InterruptedException {
        for (Long total = null; total == null || total != 3; ) {
            total = shown.poll(60, TimeUnit.SECONDS);
            if (total == null) throw new AssertionError("not shown: 3");
        }
    }
}
