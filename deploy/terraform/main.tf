# The same as tally deploy makes; a test holds the two equal. The reason of each value stands in
# ../settings.go, and ../../docs/deploy.md tells what is what.

locals {
  telemetry = lookup(var.env, "TALLY_TELEMETRY", "off") == "gcp"

  apis = concat([
    "artifactregistry.googleapis.com",
    "cloudbuild.googleapis.com",
    "cloudfunctions.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "cloudscheduler.googleapis.com",
    "eventarc.googleapis.com",
    "eventarcpublishing.googleapis.com",
    "firebaserules.googleapis.com",
    "firestore.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "pubsub.googleapis.com",
    "run.googleapis.com",
    "storage.googleapis.com",
  ], local.telemetry ? ["telemetry.googleapis.com"] : [])

  accounts = {
    tally-functions = {
      display_name = "Tally: runs the functions"
      roles        = concat(["roles/datastore.user"], local.telemetry ? ["roles/telemetry.writer"] : [])
    }
    tally-trigger   = { display_name = "Tally: delivers events to RollUpOnWrite", roles = ["roles/eventarc.eventReceiver"] }
    tally-scheduler = { display_name = "Tally: calls RollUpOnSchedule", roles = [] }
    tally-build = {
      display_name = "Tally: builds the functions"
      roles        = ["roles/artifactregistry.writer", "roles/logging.logWriter", "roles/storage.objectViewer"]
    }
  }

  roles = merge([for id, account in local.accounts : { for role in account.roles : "${id} ${role}" => { account = id, role = role } }]...)

  # Where Eventarc takes a multi-region's events from.
  regions = { nam5 = "us-central1", nam7 = "us-central1", eur3 = "europe-west4" }

  main_region = coalesce(var.region, lookup(local.regions, var.databases[var.main], var.databases[var.main]))

  # One function for each database and route, under the name that tally deploy gives it.
  routes = [for route in var.routes : {
    pattern = trimspace(split("->", route)[0])
    rollups = trimspace(regexall("([^/]+)/[^/:]+:", split("->", route)[1])[0][0]) # their collection group
    live    = length(regexall(":\\s*every\\s+[0-9+.]", route)) == 0
  }]

  triggers = merge([
    for database, location in var.databases : {
      for route in local.routes : "${database}/${route.pattern}" => {
        database = database
        location = location
        region   = coalesce(var.region, lookup(local.regions, location, location))
        pattern  = route.pattern
        live     = route.live
        words    = substr(join("-", regexall("[a-z0-9]+", lower("${database == "(default)" ? "" : database} ${replace(route.pattern, "/{[^}]*}/", " ")}"))), 0, 27)
        hash     = substr(sha256("${database}/${replace(route.pattern, "/{[^}]*}/", "{}")}"), 0, 6)
      }
    }
  ]...)

  env = merge(var.env, {
    GOOGLE_CLOUD_PROJECT       = var.project
    TALLY_ROUTES               = join("; ", var.routes)
    TALLY_CADENCE              = var.cadence
    TALLY_BURST                = tostring(var.burst)
    TALLY_HOLD_LIMIT           = var.hold_limit
    TALLY_LOG_LEVEL            = var.log_level
    TALLY_DATABASES            = join(",", keys(var.databases))
    TALLY_SCHEDULE_PERIOD      = "10m0s"
    TALLY_AUDIT_READS_PER_TICK = tostring(var.audit_reads)
  })

  fields = merge(
    { "increment_tokens.expire_at" = { collection = "increment_tokens", field = "expire_at", ttl = true } },
    { for group in toset(local.routes[*].rollups) : "${group}.tally" => { collection = group, field = "tally", ttl = false } },
  )

  database_fields = merge([
    for database in keys(var.databases) : { for name, field in local.fields : "${database}/${name}" => merge(field, { database = database }) }
  ]...)
}

resource "google_project_service" "api" {
  for_each           = toset(local.apis)
  project            = var.project
  service            = each.value
  disable_on_destroy = false # others may use it
}

# Google's own service accounts, before the first trigger needs them.
resource "google_project_service_identity" "agent" {
  provider   = google-beta
  for_each   = toset(["eventarc.googleapis.com", "pubsub.googleapis.com"])
  project    = var.project
  service    = each.value
  depends_on = [google_project_service.api]
}

resource "google_project_iam_member" "eventarc" {
  project = var.project
  role    = "roles/eventarc.serviceAgent"
  member  = google_project_service_identity.agent["eventarc.googleapis.com"].member
}

resource "google_service_account" "account" {
  for_each     = local.accounts
  project      = var.project
  account_id   = each.key
  display_name = each.value.display_name
  description  = "Made by terraform"
  depends_on   = [google_project_service.api]
}

resource "google_project_iam_member" "role" {
  for_each = local.roles
  project  = var.project
  role     = each.value.role
  member   = google_service_account.account[each.value.account].member
}

resource "google_service_account_iam_member" "pubsub" {
  service_account_id = google_service_account.account["tally-trigger"].name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = google_project_service_identity.agent["pubsub.googleapis.com"].member
}

resource "google_firestore_field" "field" {
  for_each   = local.database_fields
  project    = var.project
  database   = each.value.database
  collection = each.value.collection
  field      = each.value.field

  index_config {} # no index

  dynamic "ttl_config" {
    for_each = each.value.ttl ? [1] : []
    content {}
  }
}

# The functions' source: what "gcloud functions deploy" would upload.
locals {
  clone  = "${path.module}/../.."
  listed = flatten([for line in regexall("(?m)^!/(.*[^/\\s])\\s*$", file("${local.clone}/.gcloudignore")) : fileset(local.clone, line[0])])
  source = toset([for name in local.listed : name if !endswith(name, "_test.go")])
}

data "archive_file" "source" {
  type        = "zip"
  output_path = "${path.module}/.terraform/tally.zip"

  dynamic "source" {
    for_each = local.source
    content {
      filename = source.value
      content  = file("${local.clone}/${source.value}")
    }
  }
}

resource "google_storage_bucket" "source" {
  project                     = var.project
  name                        = "${var.project}-tally-source"
  location                    = local.main_region
  uniform_bucket_level_access = true
  force_destroy               = true # it holds the functions' source, nothing else
  depends_on                  = [google_project_service.api]
}

resource "google_storage_bucket_object" "source" {
  bucket = google_storage_bucket.source.name
  name   = "${data.archive_file.source.output_sha256}.zip"
  source = data.archive_file.source.output_path
}

resource "google_cloudfunctions2_function" "on_write" {
  for_each = local.triggers
  project  = var.project
  name     = join("-", compact(["tally-on-write", trimsuffix(each.value.words, "-"), each.value.hash]))
  location = each.value.region
  labels   = { tally = "on-write" }

  build_config {
    runtime         = "go126"
    entry_point     = "RollUpOnWrite"
    service_account = google_service_account.account["tally-build"].id
    source {
      storage_source {
        bucket = google_storage_bucket.source.name
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    service_account_email            = google_service_account.account["tally-functions"].email
    max_instance_request_concurrency = 1000
    available_cpu                    = "1"
    available_memory                 = "512Mi"
    timeout_seconds                  = 60
    min_instance_count               = 0
    max_instance_count               = 100
    environment_variables            = local.env
  }

  dynamic "event_trigger" {
    for_each = each.value.live ? [1] : [] # the schedule keeps the others
    content {
      event_type            = "google.cloud.firestore.document.v1.written"
      trigger_region        = each.value.location
      service_account_email = google_service_account.account["tally-trigger"].email
      retry_policy          = "RETRY_POLICY_RETRY" # without it a failed event is dropped

      event_filters {
        attribute = "database"
        value     = each.value.database
      }
      event_filters {
        attribute = "document"
        value     = each.value.pattern
        operator  = "match-path-pattern"
      }
    }
  }

  depends_on = [google_project_iam_member.eventarc, google_project_iam_member.role, google_service_account_iam_member.pubsub]
}

resource "google_cloud_run_v2_service_iam_member" "on_write" {
  for_each = google_cloudfunctions2_function.on_write
  project  = var.project
  location = each.value.location
  name     = each.value.name
  role     = "roles/run.invoker"
  member   = google_service_account.account["tally-trigger"].member
}

resource "google_cloudfunctions2_function" "on_schedule" {
  project  = var.project
  name     = "tally-on-schedule"
  location = local.main_region
  labels   = { tally = "on-schedule" }

  build_config {
    runtime         = "go126"
    entry_point     = "RollUpOnSchedule"
    service_account = google_service_account.account["tally-build"].id
    source {
      storage_source {
        bucket = google_storage_bucket.source.name
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    service_account_email            = google_service_account.account["tally-functions"].email
    max_instance_request_concurrency = 10
    available_cpu                    = "1"
    available_memory                 = "512Mi"
    timeout_seconds                  = 660
    min_instance_count               = 0
    max_instance_count               = 1
    environment_variables            = local.env
  }

  depends_on = [google_project_iam_member.role]
}

resource "google_cloud_run_v2_service_iam_member" "on_schedule" {
  project  = var.project
  location = google_cloudfunctions2_function.on_schedule.location
  name     = google_cloudfunctions2_function.on_schedule.name
  role     = "roles/run.invoker"
  member   = google_service_account.account["tally-scheduler"].member
}

resource "google_cloud_scheduler_job" "tally" {
  project          = var.project
  name             = "tally"
  region           = local.main_region
  description      = "Made by terraform"
  schedule         = "*/10 * * * *"
  time_zone        = "Etc/UTC"
  attempt_deadline = "660s"

  retry_config {
    retry_count          = 2
    min_backoff_duration = "10s"
    max_backoff_duration = "60s"
  }

  http_target {
    http_method = "POST"
    uri         = google_cloudfunctions2_function.on_schedule.service_config[0].uri
    oidc_token {
      service_account_email = google_service_account.account["tally-scheduler"].email
    }
  }
}
