# In project my-project:
#
#   what      54 steps: creates 4 service accounts, 1 repository, 1 log exclusion, 2 functions, 1 trigger, 1 job, 8 metrics, 11 alerts, 1 dashboard
#   source    CLONE, of no known version, hash dfe571af78f5f347
#   routes    counters/{counter}/shards/{shard} -> rollups/{counter} : count
#   where     functions and job in us-central1; database (default) in nam5
#   who       tally-functions reads and writes documents of (default); tally-trigger and tally-scheduler may call one function each, nobody else any; tally-build builds them
#   at rest   $0.14 a month, and $7.78 for 1,000 counters, audited every 10m; audits cost $129.60 at most
#   changes   from $6.00 a million if each comes alone, $0.76 if 100 a second come to one counter
#   worst day $31.25, with 10 instances busy all day, and ticks and audits at their bounds; events, requests and their roll-ups are extra
#   prices    list prices of 2026 without free quotas, Firestore's of nam5, others of us-central1; requests that succeed leave no log entry
#   not done  your security rules stay as they are (--rules deploys them, with Tally's part); Tally sets no budget
#   undo      tally undeploy --project my-project removes it; documents, databases, fields and APIs stay

# This can be run again: what exists is not made a second time.
set -eu
export CLOUDSDK_CORE_DISABLE_PROMPTS=1
# What was made just now, such as a role, is not known everywhere yet: again tries for ten minutes.
again() { for i in $(seq 20); do "$@" && return; sleep 30; done; "$@"; }
cd CLONE

# Note: alerts tell nobody yet: alert_email in tally.yaml has them mailed

# enable APIs
#   artifactregistry.googleapis.com
#   cloudbilling.googleapis.com
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
gcloud services enable artifactregistry.googleapis.com cloudbilling.googleapis.com cloudbuild.googleapis.com cloudfunctions.googleapis.com cloudresourcemanager.googleapis.com cloudscheduler.googleapis.com eventarc.googleapis.com eventarcpublishing.googleapis.com firebaserules.googleapis.com firestore.googleapis.com iam.googleapis.com logging.googleapis.com monitoring.googleapis.com pubsub.googleapis.com run.googleapis.com storage.googleapis.com \
    --project=my-project

# see that Cloud Scheduler is in us-central1
again gcloud scheduler locations describe us-central1 \
    --project=my-project

# create database (default), in a location that it keeps for ever
[ -n "$(gcloud firestore databases describe --database='(default)' --format='value(name)' --project=my-project 2>/dev/null)" ] ||
gcloud firestore databases create \
    --database='(default)' \
    --location=nam5 \
    --type=firestore-native \
    --project=my-project

# create service account tally-functions@my-project.iam.gserviceaccount.com
[ -n "$(gcloud iam service-accounts describe tally-functions@my-project.iam.gserviceaccount.com --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud iam service-accounts create tally-functions \
    --project=my-project \
    --display-name='Tally: runs the functions' \
    --description='Made by tally deploy'

# create service account tally-trigger@my-project.iam.gserviceaccount.com
[ -n "$(gcloud iam service-accounts describe tally-trigger@my-project.iam.gserviceaccount.com --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud iam service-accounts create tally-trigger \
    --project=my-project \
    --display-name='Tally: delivers events to RollUpOnWrite' \
    --description='Made by tally deploy'

# create service account tally-scheduler@my-project.iam.gserviceaccount.com
[ -n "$(gcloud iam service-accounts describe tally-scheduler@my-project.iam.gserviceaccount.com --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud iam service-accounts create tally-scheduler \
    --project=my-project \
    --display-name='Tally: calls RollUpOnSchedule' \
    --description='Made by tally deploy'

# create service account tally-build@my-project.iam.gserviceaccount.com
[ -n "$(gcloud iam service-accounts describe tally-build@my-project.iam.gserviceaccount.com --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud iam service-accounts create tally-build \
    --project=my-project \
    --display-name='Tally: builds the functions' \
    --description='Made by tally deploy'

# create pubsub's service agent
again gcloud beta services identity create \
    --service=pubsub.googleapis.com \
    --project=my-project

# give roles/iam.serviceAccountTokenCreator to pubsub's service agent on tally-trigger@my-project.iam.gserviceaccount.com
again gcloud iam service-accounts add-iam-policy-binding tally-trigger@my-project.iam.gserviceaccount.com \
    --project=my-project \
    --member=serviceAccount:service-"$(gcloud projects describe my-project --format='value(projectNumber)')"@gcp-sa-pubsub.iam.gserviceaccount.com \
    --role=roles/iam.serviceAccountTokenCreator

# create eventarc's service agent
again gcloud beta services identity create \
    --service=eventarc.googleapis.com \
    --project=my-project

# give roles/eventarc.serviceAgent to eventarc's service agent on my-project
again gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:service-"$(gcloud projects describe my-project --format='value(projectNumber)')"@gcp-sa-eventarc.iam.gserviceaccount.com \
    --role=roles/eventarc.serviceAgent \
    --condition=None

# create cloudscheduler's service agent
again gcloud beta services identity create \
    --service=cloudscheduler.googleapis.com \
    --project=my-project

# give roles/cloudscheduler.serviceAgent to cloudscheduler's service agent on my-project
again gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:service-"$(gcloud projects describe my-project --format='value(projectNumber)')"@gcp-sa-cloudscheduler.iam.gserviceaccount.com \
    --role=roles/cloudscheduler.serviceAgent \
    --condition=None

# give roles/datastore.user to tally-functions on my-project
again gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:tally-functions@my-project.iam.gserviceaccount.com \
    --role=roles/datastore.user \
    --condition='expression=resource.name == "projects/my-project/databases/(default)",title=tally'

# give roles/eventarc.eventReceiver to tally-trigger on my-project
again gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:tally-trigger@my-project.iam.gserviceaccount.com \
    --role=roles/eventarc.eventReceiver \
    --condition=None

# give roles/logging.logWriter to tally-build on my-project
again gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:tally-build@my-project.iam.gserviceaccount.com \
    --role=roles/logging.logWriter \
    --condition=None

# give roles/storage.objectViewer to tally-build on my-project
again gcloud projects add-iam-policy-binding my-project \
    --member=serviceAccount:tally-build@my-project.iam.gserviceaccount.com \
    --role=roles/storage.objectViewer \
    --condition='expression=resource.name.startsWith("projects/_/buckets/gcf-v2-sources-'"$(gcloud projects describe my-project --format='value(projectNumber)')"'-us-central1"),title=tally'

# create repository tally
[ -n "$(gcloud artifacts repositories describe tally --location=us-central1 --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud artifacts repositories create tally \
    --location=us-central1 \
    --project=my-project \
    --repository-format=docker \
    --description='Made by tally deploy'

# give roles/artifactregistry.writer to tally-build on tally
again gcloud artifacts repositories add-iam-policy-binding tally \
    --location=us-central1 \
    --project=my-project \
    --member=serviceAccount:tally-build@my-project.iam.gserviceaccount.com \
    --role=roles/artifactregistry.writer

# update clean-up of repository tally
#   cleanupPolicies.tally-keep.action: none, want KEEP
#   cleanupPolicies.tally-keep.mostRecentVersions.keepCount: none, want 5
#   cleanupPolicies.tally-stale.action: none, want DELETE
#   cleanupPolicies.tally-stale.condition.olderThan: none, want 2592000s
#   cleanupPolicies.tally-stale.condition.tagState: none, want ANY
printf %s '[{"action":{"type":"KEEP"},"mostRecentVersions":{"keepCount":5},"name":"tally-keep"},{"action":{"type":"DELETE"},"condition":{"olderThan":"2592000s","tagState":"ANY"},"name":"tally-stale"}]' |
gcloud artifacts repositories set-cleanup-policies tally \
    --location=us-central1 \
    --project=my-project \
    --policy=- \
    --no-dry-run

# update indexes of increment_tokens.expire_at in (default)
#   indexed: true, want false
again gcloud firestore indexes fields update expire_at \
    --project=my-project \
    --collection-group=increment_tokens \
    --database='(default)' \
    --disable-indexes \
    --async

# update indexes of rollups.tally in (default)
#   indexed: true, want false
again gcloud firestore indexes fields update tally \
    --project=my-project \
    --collection-group=rollups \
    --database='(default)' \
    --disable-indexes \
    --async

# update time to live by increment_tokens.expire_at in (default)
#   expires: none, want true
again gcloud firestore fields ttls update expire_at \
    --project=my-project \
    --collection-group=increment_tokens \
    --database='(default)' \
    --enable-ttl \
    --async

# create log exclusion tally-on-write-requests
[ -n "$(gcloud logging sinks list --project=my-project --filter=exclusions.name=tally-on-write-requests --format='value(name)' 2>/dev/null)" ] ||
again gcloud logging sinks update _Default \
    --project=my-project \
    --add-exclusion='name=tally-on-write-requests,filter=resource.type="cloud_run_revision" AND resource.labels.service_name="tally-on-write" AND log_id("run.googleapis.com/requests") AND httpRequest.status>=200 AND httpRequest.status<300,description=Made by tally deploy'

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
    --max-instances=10 \
    --runtime=go126 \
    --entry-point=RollUpOnWrite \
    --build-service-account=projects/my-project/serviceAccounts/tally-build@my-project.iam.gserviceaccount.com \
    --docker-repository=projects/my-project/locations/us-central1/repositories/tally \
    --service-account=tally-functions@my-project.iam.gserviceaccount.com \
    --memory=512Mi \
    --min-instances=0 \
    --ingress-settings=internal-only \
    --serve-all-traffic-latest-revision \
    --update-labels=tally=on-write,tally-deploy=true,tally-source=dfe571af78f5f347,tally-version=unknown \
    --update-env-vars='GOMEMLIMIT=410MiB,GOOGLE_CLOUD_PROJECT=my-project,TALLY_AUDIT_READS_PER_TICK=50000,TALLY_BURST=5,TALLY_CADENCE=1s,TALLY_DATABASES=(default),TALLY_HOLD_LIMIT=8s,TALLY_KEEP_READS_PER_TICK=300000,TALLY_LOG_LEVEL=INFO,TALLY_ROUTES=counters/{counter}/shards/{shard} -> rollups/{counter} : count,TALLY_SCHEDULE_PERIOD=10m0s'

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
    --update-labels=tally=on-schedule,tally-deploy=true,tally-source=dfe571af78f5f347,tally-version=unknown \
    --update-env-vars='GOMEMLIMIT=410MiB,GOOGLE_CLOUD_PROJECT=my-project,TALLY_AUDIT_READS_PER_TICK=50000,TALLY_BURST=5,TALLY_CADENCE=1s,TALLY_DATABASES=(default),TALLY_HOLD_LIMIT=8s,TALLY_KEEP_READS_PER_TICK=300000,TALLY_LOG_LEVEL=INFO,TALLY_ROUTES=counters/{counter}/shards/{shard} -> rollups/{counter} : count,TALLY_SCHEDULE_PERIOD=10m0s'

# give roles/run.invoker to tally-trigger on tally-on-write
again gcloud run services add-iam-policy-binding tally-on-write \
    --region=us-central1 \
    --project=my-project \
    --member=serviceAccount:tally-trigger@my-project.iam.gserviceaccount.com \
    --role=roles/run.invoker

# give roles/run.invoker to tally-scheduler on tally-on-schedule
again gcloud run services add-iam-policy-binding tally-on-schedule \
    --region=us-central1 \
    --project=my-project \
    --member=serviceAccount:tally-scheduler@my-project.iam.gserviceaccount.com \
    --role=roles/run.invoker

# create trigger tally-counters-shards-78fea5
[ -n "$(gcloud eventarc triggers describe tally-counters-shards-78fea5 --location=nam5 --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud eventarc triggers create tally-counters-shards-78fea5 \
    --location=nam5 \
    --project=my-project \
    --event-filters='type=google.cloud.firestore.document.v1.written,database=(default)' \
    --event-filters-path-pattern='document=counters/*/shards/*' \
    --event-data-content-type=application/protobuf \
    --destination-run-service=tally-on-write \
    --destination-run-region=us-central1 \
    --service-account=tally-trigger@my-project.iam.gserviceaccount.com \
    --labels=tally=on-write,tally-deploy=true

# update subscription tally-counters-shards-78fea5
#   ackDeadlineSeconds: 10, want 30
#   expirationPolicy.ttl: 2678400s, want none
again gcloud pubsub subscriptions update "$(gcloud eventarc triggers describe tally-counters-shards-78fea5 --location=nam5 --project=my-project --format='value(transport.pubsub.subscription)')" \
    --project=my-project \
    --ack-deadline=30 \
    --expiration-period=never

# create job tally
[ -n "$(gcloud scheduler jobs describe tally --location=us-central1 --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud scheduler jobs create http tally \
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

# audit: what changed without an event is rolled up
gcloud scheduler jobs run tally \
    --location=us-central1 \
    --project=my-project

# wait 5 minutes, until the new triggers deliver
sleep 300

# audit: what changed without an event is rolled up
gcloud scheduler jobs run tally \
    --location=us-central1 \
    --project=my-project

# create metric tally_drift
[ -n "$(gcloud logging metrics describe tally_drift --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud logging metrics create tally_drift \
    --project=my-project \
    --description='Roll-ups that lacked a change for longer than an event may take, and were repaired.' \
    --log-filter='resource.type="cloud_run_revision" AND resource.labels.service_name=("tally-on-write" OR "tally-on-schedule") AND jsonPayload.message="drift: no event of a change came in time"'

# create metric tally_events_dropped
[ -n "$(gcloud logging metrics describe tally_events_dropped --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud logging metrics create tally_events_dropped \
    --project=my-project \
    --description='Events that no retry could help: of no route, or malformed.' \
    --log-filter='resource.type="cloud_run_revision" AND resource.labels.service_name=("tally-on-write" OR "tally-on-schedule") AND jsonPayload.message="event dropped; a retry cannot help"'

# create metric tally_events_late
[ -n "$(gcloud logging metrics describe tally_events_late --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud logging metrics create tally_events_late \
    --project=my-project \
    --description='Held events whose roll-up came later than an event that fails once may take.' \
    --log-filter='resource.type="cloud_run_revision" AND resource.labels.service_name=("tally-on-write" OR "tally-on-schedule") AND jsonPayload.message="rolled up late"'

# create metric tally_kept_late
[ -n "$(gcloud logging metrics describe tally_kept_late --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud logging metrics create tally_kept_late \
    --project=my-project \
    --description='Calls of RollUpOnSchedule that found a roll-up of an every route twenty times as old as the route says.' \
    --log-filter='resource.type="cloud_run_revision" AND resource.labels.service_name=("tally-on-write" OR "tally-on-schedule") AND jsonPayload.message="kept late"'

# create metric tally_malformed_shards
[ -n "$(gcloud logging metrics describe tally_malformed_shards --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud logging metrics create tally_malformed_shards \
    --project=my-project \
    --description='Sums that left out shards that hold no finite number.' \
    --log-filter='resource.type="cloud_run_revision" AND resource.labels.service_name=("tally-on-write" OR "tally-on-schedule") AND jsonPayload.message="shards left out of the sum"'

# create metric tally_unkept
[ -n "$(gcloud logging metrics describe tally_unkept --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud logging metrics create tally_unkept \
    --project=my-project \
    --description='Counters that cannot be rolled up until somebody mends them, each logged at most once in ten minutes by an instance.' \
    --log-filter='resource.type="cloud_run_revision" AND resource.labels.service_name=("tally-on-write" OR "tally-on-schedule") AND jsonPayload.message="counter unkept; no retry can help"'

# create metric tally_ticks
[ -n "$(gcloud logging metrics describe tally_ticks --project=my-project --format='value(name)' 2>/dev/null)" ] ||
again gcloud logging metrics create tally_ticks \
    --project=my-project \
    --description='Calls of RollUpOnSchedule that did all they could: no errors, no dry run.' \
    --log-filter='resource.type="cloud_run_revision" AND resource.labels.service_name=("tally-on-write" OR "tally-on-schedule") AND jsonPayload.message="audited" AND jsonPayload.report.dry_run=false AND NOT jsonPayload.report.errors:*'

# create metric tally_lag
[ -n "$(gcloud logging metrics describe tally_lag --project=my-project --format='value(name)' 2>/dev/null)" ] ||
printf %s '{"bucketOptions":{"exponentialBuckets":{"growthFactor":1.4,"numFiniteBuckets":40,"scale":0.01}},"description":"Seconds from a change'\''s commit to as_of of the roll-up that covers it, of one event in ten seconds of each instance.","filter":"resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(\"tally-on-write\" OR \"tally-on-schedule\") AND jsonPayload.message=\"lag sampled\"","metricDescriptor":{"metricKind":"DELTA","unit":"s","valueType":"DISTRIBUTION"},"name":"tally_lag","valueExtractor":"EXTRACT(jsonPayload.lag_seconds)"}' |
gcloud logging metrics create tally_lag \
    --project=my-project \
    --config-from-file=-

# create alert deliveries-failing
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="deliveries-failing"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s"},"combiner":"OR","conditions":[{"conditionPrometheusQueryLanguage":{"disableMetricValidation":true,"duration":"1200s","evaluationInterval":"60s","query":"sum by (subscription_id) (rate(pubsub_googleapis_com:subscription_push_request_count{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\",response_class!=\"ack\"}[15m])) / sum by (subscription_id) (rate(pubsub_googleapis_com:subscription_push_request_count{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\"}[15m])) > 0.01"},"displayName":"More than 1 % of a trigger'\''s push requests were not acknowledged within 15 minutes, for 20 minutes"}],"displayName":"Tally: deliveries failing","documentation":{"content":"More than 1 % of a trigger'\''s push requests were not acknowledged within 15 minutes, for 20 minutes.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/deliveries-failing.md","mimeType":"text/markdown"},"severity":"ERROR","userLabels":{"tally":"deliveries-failing"}}' \
    --user-labels=tally=deliveries-failing,tally-deploy=true

# create alert drift
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="drift"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s","notificationRateLimit":{"period":"3600s"}},"combiner":"OR","conditions":[{"conditionMatchedLog":{"filter":"resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(\"tally-on-write\" OR \"tally-on-schedule\") AND jsonPayload.message=\"drift: no event of a change came in time\""},"displayName":"An audit found, and repaired, a roll-up that lacked a change for longer than an event may take"}],"displayName":"Tally: drift","documentation":{"content":"An audit found, and repaired, a roll-up that lacked a change for longer than an event may take.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/drift.md","mimeType":"text/markdown"},"severity":"ERROR","userLabels":{"tally":"drift"}}' \
    --user-labels=tally=drift,tally-deploy=true

# create alert events-dropped
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="events-dropped"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s","notificationRateLimit":{"period":"3600s"}},"combiner":"OR","conditions":[{"conditionMatchedLog":{"filter":"resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(\"tally-on-write\" OR \"tally-on-schedule\") AND jsonPayload.message=\"event dropped; a retry cannot help\""},"displayName":"An event was acknowledged without effect, because it is of no route, or malformed"}],"displayName":"Tally: events dropped","documentation":{"content":"An event was acknowledged without effect, because it is of no route, or malformed.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/events-dropped.md","mimeType":"text/markdown"},"severity":"ERROR","userLabels":{"tally":"events-dropped"}}' \
    --user-labels=tally=events-dropped,tally-deploy=true

# create alert kept-late
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="kept-late"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s"},"combiner":"OR","conditions":[{"conditionPrometheusQueryLanguage":{"disableMetricValidation":true,"duration":"1200s","evaluationInterval":"60s","query":"sum(increase(logging_googleapis_com:user_tally_kept_late{monitored_resource=\"cloud_run_revision\"}[20m])) > 0"},"displayName":"A roll-up of an every route was twenty times as old as its route says, for 20 minutes"}],"displayName":"Tally: kept late","documentation":{"content":"A roll-up of an every route was twenty times as old as its route says, for 20 minutes.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/kept-late.md","mimeType":"text/markdown"},"severity":"WARNING","userLabels":{"tally":"kept-late"}}' \
    --user-labels=tally=kept-late,tally-deploy=true

# create alert lag
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="lag"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s"},"combiner":"OR","conditions":[{"conditionPrometheusQueryLanguage":{"disableMetricValidation":true,"duration":"600s","evaluationInterval":"60s","query":"sum(increase(logging_googleapis_com:user_tally_events_late{monitored_resource=\"cloud_run_revision\"}[5m])) > 0"},"displayName":"Roll-ups came later than an event that fails once may take, for 10 minutes"}],"displayName":"Tally: lag","documentation":{"content":"Roll-ups came later than an event that fails once may take, for 10 minutes.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/lag.md","mimeType":"text/markdown"},"severity":"WARNING","userLabels":{"tally":"lag"}}' \
    --user-labels=tally=lag,tally-deploy=true

# create alert malformed-shards
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="malformed-shards"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s"},"combiner":"OR","conditions":[{"conditionPrometheusQueryLanguage":{"disableMetricValidation":true,"duration":"0s","evaluationInterval":"60s","query":"sum(increase(logging_googleapis_com:user_tally_malformed_shards{monitored_resource=\"cloud_run_revision\"}[1h])) > 0"},"displayName":"Shards that hold no finite number were left out of a sum within an hour"}],"displayName":"Tally: malformed shards","documentation":{"content":"Shards that hold no finite number were left out of a sum within an hour.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/malformed-shards.md","mimeType":"text/markdown"},"severity":"WARNING","userLabels":{"tally":"malformed-shards"}}' \
    --user-labels=tally=malformed-shards,tally-deploy=true

# create alert no-tick
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="no-tick"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s"},"combiner":"OR","conditions":[{"conditionPrometheusQueryLanguage":{"disableMetricValidation":true,"duration":"720s","evaluationInterval":"60s","query":"(sum(increase(logging_googleapis_com:user_tally_ticks{monitored_resource=\"cloud_run_revision\"}[20m])) or vector(0)) < 1"},"displayName":"RollUpOnSchedule has not succeeded for about three periods of its schedule, taken to be 10 minutes"}],"displayName":"Tally: no tick","documentation":{"content":"RollUpOnSchedule has not succeeded for about three periods of its schedule, taken to be 10 minutes.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/no-tick.md","mimeType":"text/markdown"},"severity":"ERROR","userLabels":{"tally":"no-tick"}}' \
    --user-labels=tally=no-tick,tally-deploy=true

# create alert oldest-event
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="oldest-event"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s"},"combiner":"OR","conditions":[{"conditionPrometheusQueryLanguage":{"disableMetricValidation":true,"duration":"300s","evaluationInterval":"60s","query":"max by (subscription_id) (pubsub_googleapis_com:subscription_oldest_unacked_message_age{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\"}) > 300"},"displayName":"An event of a trigger has waited for more than 5 minutes, for 5 minutes"}],"displayName":"Tally: oldest event","documentation":{"content":"An event of a trigger has waited for more than 5 minutes, for 5 minutes.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/oldest-event.md","mimeType":"text/markdown"},"severity":"ERROR","userLabels":{"tally":"oldest-event"}}' \
    --user-labels=tally=oldest-event,tally-deploy=true

# create alert push-latency
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="push-latency"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s"},"combiner":"OR","conditions":[{"conditionPrometheusQueryLanguage":{"disableMetricValidation":true,"duration":"600s","evaluationInterval":"60s","query":"sum by (subscription_id) (rate(pubsub_googleapis_com:subscription_push_request_latencies_sum{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\"}[10m])) / sum by (subscription_id) (rate(pubsub_googleapis_com:subscription_push_request_latencies_count{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\"}[10m])) / 1e6 > 0.8 and sum by (subscription_id) (rate(pubsub_googleapis_com:subscription_push_request_latencies_sum{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\"}[10m])) / 1e6 > 1000"},"displayName":"A trigger'\''s push requests took more than 0.8 s in the mean, with more than 1,000 outstanding, for 10 minutes"}],"displayName":"Tally: push latency","documentation":{"content":"A trigger'\''s push requests took more than 0.8 s in the mean, with more than 1,000 outstanding, for 10 minutes.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/push-latency.md","mimeType":"text/markdown"},"severity":"WARNING","userLabels":{"tally":"push-latency"}}' \
    --user-labels=tally=push-latency,tally-deploy=true

# create alert unkept
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="unkept"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s","notificationRateLimit":{"period":"3600s"}},"combiner":"OR","conditions":[{"conditionMatchedLog":{"filter":"resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(\"tally-on-write\" OR \"tally-on-schedule\") AND jsonPayload.message=\"counter unkept; no retry can help\""},"displayName":"A counter cannot be rolled up until somebody mends it: its document is full, or it lacks an index"}],"displayName":"Tally: unkept","documentation":{"content":"A counter cannot be rolled up until somebody mends it: its document is full, or it lacks an index.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/unkept.md","mimeType":"text/markdown"},"severity":"ERROR","userLabels":{"tally":"unkept"}}' \
    --user-labels=tally=unkept,tally-deploy=true

# create alert instances-at-limit
[ -n "$(gcloud alpha monitoring policies list --project=my-project --filter='userLabels.tally="instances-at-limit"' --format='value(name)' 2>/dev/null)" ] ||
again gcloud alpha monitoring policies create \
    --project=my-project \
    --policy='{"alertStrategy":{"autoClose":"86400s"},"combiner":"OR","conditions":[{"conditionPrometheusQueryLanguage":{"disableMetricValidation":true,"duration":"600s","evaluationInterval":"60s","query":"sum(run_googleapis_com:container_instance_count{monitored_resource=\"cloud_run_revision\",service_name=\"tally-on-write\",state=\"active\"}) >= 10"},"displayName":"All 10 instances that RollUpOnWrite may have were busy, for 10 minutes"}],"displayName":"Tally: instances at limit","documentation":{"content":"All 10 instances that RollUpOnWrite may have were busy, for 10 minutes.\n\nWhat to do: https://github.com/firestore-tally/tally/blob/main/docs/playbooks/instances-at-limit.md","mimeType":"text/markdown"},"severity":"WARNING","userLabels":{"tally":"instances-at-limit"}}' \
    --user-labels=tally=instances-at-limit,tally-deploy=true

# create dashboard Tally
[ -n "$(gcloud monitoring dashboards list --project=my-project --filter='displayName="Tally" AND labels:tally' --format='value(name)' 2>/dev/null)" ] ||
again gcloud monitoring dashboards create \
    --project=my-project \
    --config='{"displayName":"Tally","labels":{"tally":""},"mosaicLayout":{"columns":48,"tiles":[{"height":14,"widget":{"title":"Ticks that succeeded","xyChart":{"dataSets":[{"legendTemplate":"ticks","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase(logging_googleapis_com:user_tally_ticks{monitored_resource=\"cloud_run_revision\"}[${__interval}]))","unitOverride":"1"}}],"yAxis":{"scale":"LINEAR"}}},"width":12,"xPos":0,"yPos":0},{"height":14,"widget":{"title":"Drift, dropped events, malformed shards, unkept counters","xyChart":{"dataSets":[{"legendTemplate":"drift","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase(logging_googleapis_com:user_tally_drift{monitored_resource=\"cloud_run_revision\"}[${__interval}]))","unitOverride":"1"}},{"legendTemplate":"dropped","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase(logging_googleapis_com:user_tally_events_dropped{monitored_resource=\"cloud_run_revision\"}[${__interval}]))","unitOverride":"1"}},{"legendTemplate":"malformed","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase(logging_googleapis_com:user_tally_malformed_shards{monitored_resource=\"cloud_run_revision\"}[${__interval}]))","unitOverride":"1"}},{"legendTemplate":"unkept","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase(logging_googleapis_com:user_tally_unkept{monitored_resource=\"cloud_run_revision\"}[${__interval}]))","unitOverride":"1"}}],"yAxis":{"scale":"LINEAR"}}},"width":12,"xPos":12,"yPos":0},{"height":14,"widget":{"title":"Failed deliveries, late roll-ups, calls that keep late","xyChart":{"dataSets":[{"legendTemplate":"failed","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase(pubsub_googleapis_com:subscription_push_request_count{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\",response_class!=\"ack\"}[${__interval}]))","unitOverride":"1"}},{"legendTemplate":"late","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase(logging_googleapis_com:user_tally_events_late{monitored_resource=\"cloud_run_revision\"}[${__interval}]))","unitOverride":"1"}},{"legendTemplate":"kept late","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase(logging_googleapis_com:user_tally_kept_late{monitored_resource=\"cloud_run_revision\"}[${__interval}]))","unitOverride":"1"}}],"yAxis":{"scale":"LINEAR"}}},"width":12,"xPos":24,"yPos":0},{"height":14,"widget":{"title":"Mean push latency","xyChart":{"dataSets":[{"legendTemplate":"mean","plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(rate(pubsub_googleapis_com:subscription_push_request_latencies_sum{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\"}[${__interval}])) / sum(rate(pubsub_googleapis_com:subscription_push_request_latencies_count{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\"}[${__interval}])) / 1e6","unitOverride":"s"}}],"yAxis":{"scale":"LINEAR"}}},"width":12,"xPos":36,"yPos":0},{"height":14,"widget":{"title":"Lag: commit to as_of, sampled","xyChart":{"dataSets":[{"legendTemplate":"p50","plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"histogram_quantile(0.5, sum by (le) (rate(logging_googleapis_com:user_tally_lag_bucket{monitored_resource=\"cloud_run_revision\"}[${__interval}])))","unitOverride":"s"}},{"legendTemplate":"p99","plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"histogram_quantile(0.99, sum by (le) (rate(logging_googleapis_com:user_tally_lag_bucket{monitored_resource=\"cloud_run_revision\"}[${__interval}])))","unitOverride":"s"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":0,"yPos":14},{"height":14,"widget":{"title":"Age of the oldest event that waits","xyChart":{"dataSets":[{"plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"max by (subscription_id) (pubsub_googleapis_com:subscription_oldest_unacked_message_age{subscription_id=~\"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+\"})","unitOverride":"s"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":16,"yPos":14},{"height":14,"widget":{"title":"Busy instances of RollUpOnWrite","xyChart":{"dataSets":[{"legendTemplate":"busy","plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(run_googleapis_com:container_instance_count{monitored_resource=\"cloud_run_revision\",service_name=\"tally-on-write\",state=\"active\"})","unitOverride":"1"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":32,"yPos":14},{"height":5,"widget":{"text":{"content":"The charts above come from the logs, Pub/Sub and Cloud Run. Those below stay empty unless `TALLY_TELEMETRY=gcp`: https://github.com/firestore-tally/tally/blob/main/docs/operations.md","format":"MARKDOWN"},"title":"With telemetry"},"width":48,"xPos":0,"yPos":28},{"height":16,"widget":{"title":"Events a second, by outcome","xyChart":{"dataSets":[{"plotType":"STACKED_AREA","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum by (outcome) (rate({\"tally.events\"}[${__interval}]))","unitOverride":"1/s"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":0,"yPos":33},{"height":16,"widget":{"title":"Lag of held events: commit to as_of","xyChart":{"dataSets":[{"legendTemplate":"p50","plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"histogram_quantile(0.5, sum by (le) (rate({\"tally.lag\"}[${__interval}])))","unitOverride":"s"}},{"legendTemplate":"p99","plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"histogram_quantile(0.99, sum by (le) (rate({\"tally.lag\"}[${__interval}])))","unitOverride":"s"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":16,"yPos":33},{"height":16,"widget":{"title":"Time that events are held","xyChart":{"dataSets":[{"legendTemplate":"p50","plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"histogram_quantile(0.5, sum by (le) (rate({\"tally.held\"}[${__interval}])))","unitOverride":"s"}},{"legendTemplate":"p99","plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"histogram_quantile(0.99, sum by (le) (rate({\"tally.held\"}[${__interval}])))","unitOverride":"s"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":32,"yPos":33},{"height":16,"widget":{"title":"Roll-ups a second, by outcome","xyChart":{"dataSets":[{"plotType":"STACKED_AREA","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum by (outcome) (rate({\"tally.rollups\"}[${__interval}]))","unitOverride":"1/s"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":0,"yPos":49},{"height":16,"widget":{"title":"Failed calls of Firestore a second","xyChart":{"dataSets":[{"plotType":"LINE","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum by (operation, \"error.type\") (rate({\"tally.errors\"}[${__interval}]))","unitOverride":"1/s"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":16,"yPos":49},{"height":16,"widget":{"title":"Billed operations a second","xyChart":{"dataSets":[{"plotType":"STACKED_AREA","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum by (kind) (rate({\"tally.billed\"}[${__interval}]))","unitOverride":"1/s"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":32,"yPos":49},{"height":16,"widget":{"title":"Ticks","xyChart":{"dataSets":[{"plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum by (outcome) (increase({\"tally.ticks\"}[${__interval}]))","unitOverride":"1"}}],"yAxis":{"scale":"LINEAR"}}},"width":16,"xPos":0,"yPos":65},{"height":16,"widget":{"title":"Audited counters, drift","xyChart":{"dataSets":[{"plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum by (outcome) (increase({\"tally.audited\"}[${__interval}]))","unitOverride":"1"}},{"legendTemplate":"drift","plotType":"STACKED_BAR","targetAxis":"Y1","timeSeriesQuery":{"prometheusQuery":"sum(increase({\"tally.drift\"}[${__interval}]))","unitOverride":"1"}}],"yAxis":{"scale":"LINEAR"}}},"width":32,"xPos":16,"yPos":65}]}}'

