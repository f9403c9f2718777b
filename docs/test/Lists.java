import com.google.cloud.firestore.Firestore;
import com.google.cloud.firestore.FirestoreOptions;
import com.google.cloud.firestore.Query;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Lists roll-ups, and prints what comes of each try. */
class Lists {
    private interface Read {
        void read(Query query) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Firestore db = FirestoreOptions.getDefaultInstance().getService();
        Map<String, Read> reads = Map.of(
                "query", query -> query.get().get(),
                "aggregation", query -> query.count().get().get(),
                "listener", Lists::listen);
        int[][] tries = {{100, 0}, {1, 1 << 30}};
        for (int[] limitAndOffset : tries) {
            Query query = db.collection("rollups").limit(limitAndOffset[0]).offset(limitAndOffset[1]);
            for (var read : reads.entrySet()) {
                System.out.println(limitAndOffset[1] + " " + read.getKey() + " " + outcome(read.getValue(), query));
            }
        }
        System.exit(0); // the SDK's threads go on
    }

    private static String outcome(Read read, Query query) throws Exception {
        try {
            read.read(query);
            return "allowed";
        } catch (Exception e) {
            // A listener's error has no code.
            if (e.toString().contains("PERMISSION_DENIED") || e.toString().contains("for 'list'")) return "denied";
            throw e;
        }
    }

    private static void listen(Query query) throws Exception {
        var first = new CompletableFuture<Object>();
        query.addSnapshotListener((snapshot, error) -> {
            if (error != null) first.completeExceptionally(error);
            else first.complete(snapshot);
        });
        first.get();
    }
}
