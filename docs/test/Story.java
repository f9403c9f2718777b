import com.google.cloud.firestore.AggregateField;
import com.google.cloud.firestore.FirestoreOptions;

/** Sums what the Java of docs/clients.md has incremented, as that page says. */
class Story {
    public static void main(String[] args) throws Exception {
        var db = FirestoreOptions.getDefaultInstance().getService();
        AggregateField sum = AggregateField.sum("count");
        long exact = db.collection("counters/java/shards").aggregate(sum).get().get().getLong(sum);
        if (exact != 3) throw new AssertionError("the sum is " + exact + ", want 3");
        System.exit(0); // the SDK's threads go on
    }
}
