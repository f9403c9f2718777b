set -eu
export CLOUDSDK_CORE_DISABLE_PROMPTS=1
again() { for i in $(seq 20); do "$@" && return; sleep 30; done; "$@"; }
cd CLONE

# enable APIs
#   artifactregistry.googleapis.com
#   cloudbuild.googleapis.com
#   cloudfunctions.googleapis.com
#   cloudresourcemanager.googleapis.com
#   cloudscheduler.googleapis.com
#   eventarc.googleapis.com
#   eventarcpublishing.googleapis.com
#   firebaserules.googleapis.com
#   firestore.googleapis.com
#   iam.googleapis.com
#   logging.googleapis.com
#   monitoring.googleapis.com
#   pubsub.googleapis.com
#   run.googleapis.com
#   storage.googleapis.com
gcloud services enable artifactregistry.googleapis.com cloudbuild.googleapis.com cloudfunctions.googleapis.com cloudresourcemanager.googleapis.com cloudscheduler.googleapis.com eventarc.googleapis.com eventarcpublishing.googleapis.com firebaserules.googleapis.com firestore.googleapis.com iam.googleapis.com logging.googleapis.com monitoring.googleapis.com pubsub.googleapis.com run.googleapis.com storage.googleapis.com \
    --project=my-project

# create database (default), in a location that it keeps for ever
gcloud firestore databases create \
    --database='(default)' \
    --location=nam5 \
    --type=firestore-native \
    --project=my-project

# create service account tally-functions@my-project.iam.gserviceaccount.com
gcloud iam service-accounts create tally-functions \
    --project=my-project \
    --display-name='Tally: runs the functions' \
    --description='Made by tally deploy'

# create service account tally-trigger@my-project.iam.gserviceaccount.com
gcloud iam service-accounts create tally-trigger \
    --project=my-project \
    --display-name='Tally: delivers events to RollUpOnWrite' \
    --description='Made by tally deploy'

# create service account tally-scheduler@my-project.iam.gserviceaccount.com
gcloud iam service-accounts create tally-scheduler \
    --project=my-project \
    --display-name='Tally: calls RollUpOnSchedule' \
    --description='Made by tally deploy'

# create service account tally-build@my-project.iam.gserviceaccount.com
gcloud iam service-accounts create tally-build \
    --project=my-project \
    --display-name='Tally: builds the functions' \
    --description='Made by tally deploy'

# create pubsub's service agent
gcloud beta services identity create \
    --service=pubsub.googleapis.com \
    --project=my-project

# give roles/iam.serviceAccountTokenCreator to pubsub's service agent on tally-trigger@my-project.iam.gserviceaccount.com
gcloud iam service-accounts add-iam-policy-binding tally-trigger@my-project.iam.gserviceaccount.com \
    --project=my-project \
    --member=serviceAccount:service-"$(gcloud projects describe my-project --format='value(projectNumber)')"@gcp-sa-pubsub.iam.gserviceaccount.com \
    --role=roles/iam.serviceAccountTokenCreator

# create eventarc's service agent
gcloud beta services identity create \
    --service=eventarc.googleapis.com \
    --project=my-project

# give roles/eventarc.serviceAgent to eventarc's service agent on my-project
gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:service-"$(gcloud projects describe my-project --format='value(projectNumber)')"@gcp-sa-eventarc.iam.gserviceaccount.com \
    --role=roles/eventarc.serviceAgent \
    --condition=None

# give roles/datastore.user to tally-functions on my-project
gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:tally-functions@my-project.iam.gserviceaccount.com \
    --role=roles/datastore.user \
    --condition='expression=resource.name == "projects/my-project/databases/(default)",title=tally'

# give roles/eventarc.eventReceiver to tally-trigger on my-project
gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:tally-trigger@my-project.iam.gserviceaccount.com \
    --role=roles/eventarc.eventReceiver \
    --condition=None

# give roles/logging.logWriter to tally-build on my-project
gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:tally-build@my-project.iam.gserviceaccount.com \
    --role=roles/logging.logWriter \
    --condition=None

# give roles/storage.objectViewer to tally-build on my-project
gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:tally-build@my-project.iam.gserviceaccount.com \
    --role=roles/storage.objectViewer \
    --condition='expression=resource.name.startsWith("projects/_/buckets/gcf-v2-sources-'"$(gcloud projects describe my-project --format='value(projectNumber)')"'-us-central1"),title=tally'

# create repository tally
gcloud artifacts repositories create tally \
    --location=us-central1 \
    --project=my-project \
    --repository-format=docker \
    --description='Made by tally deploy'

# give roles/artifactregistry.writer to tally-build on tally
gcloud artifacts repositories add-iam-policy-binding tally \
    --location=us-central1 \
    --project=my-project \
    --member=serviceAccount:tally-build@my-project.iam.gserviceaccount.com \
    --role=roles/artifactregistry.writer

# update indexes of increment_tokens.expire_at in (default)
#   indexed: true, want false
gcloud firestore indexes fields update expire_at \
    --project=my-project \
    --collection-group=increment_tokens \
    --database='(default)' \
    --disable-indexes

# update indexes of rollups.tally in (default)
#   indexed: true, want false
gcloud firestore indexes fields update tally \
    --project=my-project \
    --collection-group=rollups \
    --database='(default)' \
    --disable-indexes

# update time to live by increment_tokens.expire_at in (default)
#   expires: none, want true
gcloud firestore fields ttls update expire_at \
    --project=my-project \
    --collection-group=increment_tokens \
    --database='(default)' \
    --enable-ttl \
    --async

# create function tally-on-write
again gcloud functions deploy tally-on-write \
    --region=us-central1 \
    --project=my-project \
    --gen2 \
    --source=. \
    --trigger-http \
    --no-allow-unauthenticated \
    --concurrency=1000 \
    --cpu=1 \
    --timeout=60s \
    --max-instances=100 \
    --runtime=go126 \
    --entry-point=RollUpOnWrite \
    --build-service-account=projects/my-project/serviceAccounts/tally-build@my-project.iam.gserviceaccount.com \
    --docker-repository=projects/my-project/locations/us-central1/repositories/tally \
    --service-account=tally-functions@my-project.iam.gserviceaccount.com \
    --memory=512Mi \
    --min-instances=0 \
    --ingress-settings=internal-only \
    --serve-all-traffic-latest-revision \
    --update-labels=tally=on-write,tally-deploy=true,tally-source=dfe571af78f5f347 \
    --update-env-vars='GOOGLE_CLOUD_PROJECT=my-project,TALLY_AUDIT_READS_PER_TICK=50000,TALLY_BURST=5,TALLY_CADENCE=1s,TALLY_DATABASES=(default),TALLY_HOLD_LIMIT=8s,TALLY_LOG_LEVEL=INFO,TALLY_ROUTES=counters/{counter}/shards/{shard} -> rollups/{counter} : count,TALLY_SCHEDULE_PERIOD=10m0s'

# create function tally-on-schedule
again gcloud functions deploy tally-on-schedule \
    --region=us-central1 \
    --project=my-project \
    --gen2 \
    --source=. \
    --trigger-http \
    --no-allow-unauthenticated \
    --concurrency=1 \
    --cpu=0.333 \
    --max-instances=1 \
    --timeout=660s \
    --runtime=go126 \
    --entry-point=RollUpOnSchedule \
    --build-service-account=projects/my-project/serviceAccounts/tally-build@my-project.iam.gserviceaccount.com \
    --docker-repository=projects/my-project/locations/us-central1/repositories/tally \
    --service-account=tally-functions@my-project.iam.gserviceaccount.com \
    --memory=512Mi \
    --min-instances=0 \
    --ingress-settings=internal-only \
    --serve-all-traffic-latest-revision \
    --update-labels=tally=on-schedule,tally-deploy=true,tally-source=dfe571af78f5f347 \
    --update-env-vars='GOOGLE_CLOUD_PROJECT=my-project,TALLY_AUDIT_READS_PER_TICK=50000,TALLY_BURST=5,TALLY_CADENCE=1s,TALLY_DATABASES=(default),TALLY_HOLD_LIMIT=8s,TALLY_LOG_LEVEL=INFO,TALLY_ROUTES=counters/{counter}/shards/{shard} -> rollups/{counter} : count,TALLY_SCHEDULE_PERIOD=10m0s'

# give roles/run.invoker to tally-trigger on tally-on-write
gcloud run services add-iam-policy-binding tally-on-write \
    --region=us-central1 \
    --project=my-project \
    --member=serviceAccount:tally-trigger@my-project.iam.gserviceaccount.com \
    --role=roles/run.invoker

# give roles/run.invoker to tally-scheduler on tally-on-schedule
gcloud run services add-iam-policy-binding tally-on-schedule \
    --region=us-central1 \
    --project=my-project \
    --member=serviceAccount:tally-scheduler@my-project.iam.gserviceaccount.com \
    --role=roles/run.invoker

# create trigger tally-counters-shards-78fea5
again gcloud eventarc triggers create tally-counters-shards-78fea5 \
    --location=nam5 \
    --project=my-project \
    --event-filters='type=google.cloud.firestore.document.v1.written,database=(default)' \
    --event-filters-path-pattern='document=counters/{counter}/shards/{shard}' \
    --event-data-content-type=application/protobuf \
    --destination-run-service=tally-on-write \
    --destination-run-region=us-central1 \
    --service-account=tally-trigger@my-project.iam.gserviceaccount.com \
    --labels=tally=on-write,tally-deploy=true

# create job tally
gcloud scheduler jobs create http tally \
    --location=us-central1 \
    --project=my-project \
    --schedule='*/10 * * * *' \
    --time-zone=Etc/UTC \
    --uri="$(gcloud functions describe tally-on-schedule --region=us-central1 --project=my-project --format='value(serviceConfig.uri)')" \
    --http-method=POST \
    --oidc-service-account-email=tally-scheduler@my-project.iam.gserviceaccount.com \
    --oidc-token-audience="$(gcloud functions describe tally-on-schedule --region=us-central1 --project=my-project --format='value(serviceConfig.uri)')" \
    --attempt-deadline=660s \
    --max-retry-attempts=2 \
    --min-backoff=10s \
    --max-backoff=60s \
    --description='Made by tally deploy'

# create metric tally_drift
gcloud logging metrics create tally_drift \
    --project=my-project \
    --config-from-file=deploy/monitoring/metrics/tally_drift.json

# create metric tally_events_dropped
gcloud logging metrics create tally_events_dropped \
    --project=my-project \
    --config-from-file=deploy/monitoring/metrics/tally_events_dropped.json

# create metric tally_events_late
gcloud logging metrics create tally_events_late \
    --project=my-project \
    --config-from-file=deploy/monitoring/metrics/tally_events_late.json

# create metric tally_malformed_shards
gcloud logging metrics create tally_malformed_shards \
    --project=my-project \
    --config-from-file=deploy/monitoring/metrics/tally_malformed_shards.json

# create metric tally_ticks
gcloud logging metrics create tally_ticks \
    --project=my-project \
    --config-from-file=deploy/monitoring/metrics/tally_ticks.json

# create alert deliveries-failing
gcloud alpha monitoring policies create \
    --project=my-project \
    --policy-from-file=deploy/monitoring/alerts/deliveries-failing.json \
    --user-labels=tally=deliveries-failing,tally-deploy=true

# create alert drift
gcloud alpha monitoring policies create \
    --project=my-project \
    --policy-from-file=deploy/monitoring/alerts/drift.json \
    --user-labels=tally=drift,tally-deploy=true

# create alert events-dropped
gcloud alpha monitoring policies create \
    --project=my-project \
    --policy-from-file=deploy/monitoring/alerts/events-dropped.json \
    --user-labels=tally=events-dropped,tally-deploy=true

# create alert lag
gcloud alpha monitoring policies create \
    --project=my-project \
    --policy-from-file=deploy/monitoring/alerts/lag.json \
    --user-labels=tally=lag,tally-deploy=true

# create alert malformed-shards
gcloud alpha monitoring policies create \
    --project=my-project \
    --policy-from-file=deploy/monitoring/alerts/malformed-shards.json \
    --user-labels=tally=malformed-shards,tally-deploy=true

# create alert no-tick
gcloud alpha monitoring policies create \
    --project=my-project \
    --policy-from-file=deploy/monitoring/alerts/no-tick.json \
    --user-labels=tally=no-tick,tally-deploy=true

# create alert push-latency
gcloud alpha monitoring policies create \
    --project=my-project \
    --policy-from-file=deploy/monitoring/alerts/push-latency.json \
    --user-labels=tally=push-latency,tally-deploy=true

# create dashboard Tally
gcloud monitoring dashboards create \
    --project=my-project \
    --config-from-file=deploy/monitoring/dashboard.json

# audit: what changed without an event is rolled up
gcloud scheduler jobs run tally \
    --location=us-central1 \
    --project=my-project

# Note: alerts tell nobody yet: alert_email in tally.yaml has them mailed
