import com.google.api.core.ApiFutures;
import com.google.cloud.firestore.FieldValue;
import com.google.cloud.firestore.FirestoreOptions;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;

/**
 * Writes a counter as Firebase's sample for Java does: its number of shards, then all shards at
 * once, then updates.
 */
class Sample {
    private static final int NUM_SHARDS = 3;

    public static class Counter {
        public int numShards = NUM_SHARDS;
    }

    public static class Shard {
        public int count = 0;
    }

    public static void main(String[] args) throws Exception {
        try (var db = FirestoreOptions.getDefaultInstance().getService()) {
            var counter = db.document("counters/java-sample");
            counter.set(new Counter()).get();
            var shards = counter.collection("shards");
            ApiFutures.allAsList(IntStream.range(0, NUM_SHARDS)
                            .mapToObj(i -> shards.document(String.valueOf(i)).set(new Shard()))
                            .toList())
                    .get();
            for (int i = 0; i < 7; i++) {
                var shard = shards.document(String.valueOf(new Random().nextInt(NUM_SHARDS)));
                shard.update("count", FieldValue.increment(1)).get();
            }
        }
    }
}
