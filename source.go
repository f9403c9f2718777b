package tally

import "embed"

// Source holds the files that tally deploy uploads: those that the functions are built from, and
// .gcloudignore, which lists them. This file is not among them, so the deployed functions do not
// carry their own source.
//
// "go test ./internal/tool/deploy -run TestCarried -update" writes the names.
//
//go:embed .gcloudignore
//go:embed doc.go
//go:embed firestore.rules
//go:embed functions.go
//go:embed go.mod
//go:embed go.sum
//go:embed internal/cloud/alarm/alarm.go
//go:embed internal/cloud/alarm/queue.go
//go:embed internal/cloud/app/alarm.go
//go:embed internal/cloud/app/app.go
//go:embed internal/cloud/app/database.go
//go:embed internal/cloud/app/end.go
//go:embed internal/cloud/app/event.go
//go:embed internal/cloud/app/lag.go
//go:embed internal/cloud/app/log.go
//go:embed internal/cloud/app/outcome.go
//go:embed internal/cloud/app/schedule.go
//go:embed internal/cloud/app/ungrouped.go
//go:embed internal/cloud/billing/billing.go
//go:embed internal/cloud/billing/file.go
//go:embed internal/cloud/billing/prices.go
//go:embed internal/cloud/config/budget.go
//go:embed internal/cloud/config/config.go
//go:embed internal/cloud/firestorestore/audit.go
//go:embed internal/cloud/firestorestore/client.go
//go:embed internal/cloud/firestorestore/cursor.go
//go:embed internal/cloud/firestorestore/fields.go
//go:embed internal/cloud/firestorestore/lane.go
//go:embed internal/cloud/firestorestore/locked.go
//go:embed internal/cloud/firestorestore/store.go
//go:embed internal/cloud/firestorestore/sum.go
//go:embed internal/cloud/firestorestore/value.go
//go:embed internal/cloud/telemetry/export.go
//go:embed internal/cloud/telemetry/metrics.go
//go:embed internal/cloud/telemetry/spans.go
//go:embed internal/cloud/telemetry/telemetry.go
//go:embed internal/cloud/trigger/request.go
//go:embed internal/cloud/trigger/trigger.go
//go:embed internal/document/claim.go
//go:embed internal/document/document.go
//go:embed internal/document/field.go
//go:embed internal/document/id.go
//go:embed internal/value/kind.go
//go:embed internal/value/sum.go
//go:embed internal/value/value.go
//go:embed rollup/alarm.go
//go:embed rollup/audit.go
//go:embed rollup/claim.go
//go:embed rollup/coalescer.go
//go:embed rollup/compare.go
//go:embed rollup/contention.go
//go:embed rollup/cursor.go
//go:embed rollup/decide.go
//go:embed rollup/doc.go
//go:embed rollup/fair.go
//go:embed rollup/find.go
//go:embed rollup/generation.go
//go:embed rollup/keep.go
//go:embed rollup/logged.go
//go:embed rollup/look.go
//go:embed rollup/options.go
//go:embed rollup/pace.go
//go:embed rollup/prober.go
//go:embed rollup/publish.go
//go:embed rollup/roller.go
//go:embed rollup/route/concern.go
//go:embed rollup/route/condition.go
//go:embed rollup/route/conflict.go
//go:embed rollup/route/counted.go
//go:embed rollup/route/doc.go
//go:embed rollup/route/indexes.go
//go:embed rollup/route/lex.go
//go:embed rollup/route/mistake.go
//go:embed rollup/route/parse.go
//go:embed rollup/route/route.go
//go:embed rollup/route/syntax.go
//go:embed rollup/route/template.go
//go:embed rollup/route/total.go
//go:embed rollup/route/totals.go
//go:embed rollup/route/ungrouped.go
//go:embed rollup/store.go
//go:embed rollup/tolerance.go
//go:embed rollup/turn.go
//go:embed rollup/unindexed.go
//go:embed rollup/unkept.go
//go:embed rollup/untold.go
//go:embed rules.go
var Source embed.FS
