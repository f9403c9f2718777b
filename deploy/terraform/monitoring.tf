# The files of ../monitoring, which tally deploy applies too.

locals {
  metrics    = { for file in fileset("${path.module}/../monitoring/metrics", "*.json") : file => jsondecode(file("${path.module}/../monitoring/metrics/${file}")) }
  alerts     = { for file in fileset("${path.module}/../monitoring/alerts", "*.json") : file => jsondecode(file("${path.module}/../monitoring/alerts/${file}")) }
  dashboards = { for file in fileset("${path.module}/../monitoring", "dashboard.json") : file => file("${path.module}/../monitoring/${file}") }
}

resource "google_logging_metric" "metric" {
  for_each         = local.metrics
  project          = var.project
  name             = each.value.name
  description      = try(each.value.description, null)
  filter           = each.value.filter
  value_extractor  = try(each.value.valueExtractor, null)
  label_extractors = try(each.value.labelExtractors, null)

  dynamic "metric_descriptor" {
    for_each = try([each.value.metricDescriptor], [])
    content {
      metric_kind = metric_descriptor.value.metricKind
      value_type  = metric_descriptor.value.valueType
      unit        = try(metric_descriptor.value.unit, null)

      dynamic "labels" {
        for_each = try(metric_descriptor.value.labels, [])
        content {
          key         = labels.value.key
          value_type  = try(labels.value.valueType, null)
          description = try(labels.value.description, null)
        }
      }
    }
  }
}

resource "google_monitoring_notification_channel" "email" {
  for_each     = toset(var.alert_email == null ? [] : [var.alert_email])
  project      = var.project
  display_name = "Tally"
  type         = "email"
  labels       = { email_address = each.value }
  user_labels  = { tally = "alerts" }
  depends_on   = [google_project_service.api]
}

resource "google_monitoring_alert_policy" "alert" {
  for_each              = local.alerts
  project               = var.project
  display_name          = each.value.displayName
  combiner              = each.value.combiner
  severity              = try(each.value.severity, null)
  user_labels           = { tally = trimsuffix(each.key, ".json") }
  notification_channels = [for channel in google_monitoring_notification_channel.email : channel.name]

  dynamic "documentation" {
    for_each = try([each.value.documentation], [])
    content {
      content   = documentation.value.content
      mime_type = try(documentation.value.mimeType, null)
    }
  }

  dynamic "conditions" {
    for_each = each.value.conditions
    content {
      display_name = conditions.value.displayName

      dynamic "condition_matched_log" {
        for_each = try([conditions.value.conditionMatchedLog], [])
        content {
          filter           = condition_matched_log.value.filter
          label_extractors = try(condition_matched_log.value.labelExtractors, null)
        }
      }

      dynamic "condition_prometheus_query_language" {
        for_each = try([conditions.value.conditionPrometheusQueryLanguage], [])
        content {
          query                     = condition_prometheus_query_language.value.query
          duration                  = try(condition_prometheus_query_language.value.duration, null)
          evaluation_interval       = try(condition_prometheus_query_language.value.evaluationInterval, null)
          disable_metric_validation = try(condition_prometheus_query_language.value.disableMetricValidation, null)
        }
      }

      dynamic "condition_threshold" {
        for_each = try([conditions.value.conditionThreshold], [])
        content {
          filter          = condition_threshold.value.filter
          comparison      = condition_threshold.value.comparison
          threshold_value = try(condition_threshold.value.thresholdValue, 0)
          duration        = condition_threshold.value.duration

          dynamic "aggregations" {
            for_each = try(condition_threshold.value.aggregations, [])
            content {
              alignment_period     = try(aggregations.value.alignmentPeriod, null)
              per_series_aligner   = try(aggregations.value.perSeriesAligner, null)
              cross_series_reducer = try(aggregations.value.crossSeriesReducer, null)
              group_by_fields      = try(aggregations.value.groupByFields, null)
            }
          }
        }
      }
    }
  }

  dynamic "alert_strategy" {
    for_each = try([each.value.alertStrategy], [])
    content {
      auto_close = try(alert_strategy.value.autoClose, null)

      dynamic "notification_rate_limit" {
        for_each = try([alert_strategy.value.notificationRateLimit], [])
        content {
          period = notification_rate_limit.value.period
        }
      }
    }
  }

  depends_on = [google_project_service.api, google_logging_metric.metric]
}

resource "google_monitoring_dashboard" "dashboard" {
  for_each       = local.dashboards
  project        = var.project
  dashboard_json = each.value
  depends_on     = [google_project_service.api]
}
