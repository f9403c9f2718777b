variable "project" {
  description = "Project id."
  type        = string
}

variable "databases" {
  description = "Ids of the databases with counters, and their locations: gcloud firestore databases list. RollUpOnSchedule runs near the one that main names."
  type        = map(string)
  # { "(default)" = "nam5", orders = "europe-west1" }
}

variable "main" {
  description = "The database near which RollUpOnSchedule runs."
  type        = string
  default     = "(default)"
}

variable "region" {
  description = "Region of the functions; null: that of each database."
  type        = string
  default     = null
}

variable "routes" {
  description = "Routes, as docs/config.md has them."
  type        = list(string)
  default     = ["counters/{counter}/shards/{shard} -> rollups/{counter} : count"]
}

variable "cadence" {
  description = "TALLY_CADENCE."
  type        = string
  default     = "1s"
}

variable "burst" {
  description = "TALLY_BURST."
  type        = number
  default     = 5
}

variable "hold_limit" {
  description = "TALLY_HOLD_LIMIT."
  type        = string
  default     = "8s"
}

variable "log_level" {
  description = "TALLY_LOG_LEVEL."
  type        = string
  default     = "INFO"
}

variable "audit_reads" {
  description = "TALLY_AUDIT_READS_PER_TICK."
  type        = number
  default     = 50000
}

variable "env" {
  description = "Further variables of both functions."
  type        = map(string)
  default     = {}
}

variable "alert_email" {
  description = "Address that alerts are mailed to; null: none."
  type        = string
  default     = null
}
