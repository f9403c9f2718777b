package deploy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// terraformState returns the state of a project in which Terraform looks up what Google gives.
func terraformState(id string) *State {
	s := newState(id)
	s.Number = "${data.google_project.project.number}"
	return s
}

// Terraform returns the description as a configuration in Terraform's JSON syntax
// (https://developer.hashicorp.com/terraform/language/syntax/json), and notes of what Terraform
// cannot say. folder is the absolute path of Tally's source. Arguments have the names of the API's
// fields, in snake case, unless resource says otherwise
// (https://registry.terraform.io/providers/hashicorp/google/latest/docs).
func (d *Description) Terraform(folder string) ([]byte, []string, error) {
	files, err := sourceFiles(os.DirFS(folder))
	if err != nil {
		return nil, nil, err
	}

	named, err := Describe(d.Options, terraformState(d.Project), d.source)
	if err != nil {
		return nil, nil, err
	}
	t := &terraform{Description: named, resources: make(map[string]map[string]block)}
	t.foundations()

	var after []string // commands for what no resource of Terraform's says
	for _, k := range kinds {
		t.next()
		after = append(after, t.ofKind(k)...)

		t.next()
		for _, g := range t.Grants {
			if g.On == k {
				t.grant(g)
			}
		}
	}

	out, err := json.MarshalIndent(t.configuration(folder, files), "", "  ")

	// https://github.com/hashicorp/terraform-provider-google/issues/11435
	enable := gcloud("services", "enable", "cloudresourcemanager.googleapis.com").in(d.Project)
	notes := []string{"The provider enables APIs by this one; in a new project run it before the first apply:\n  " + enable.String()}
	if len(after) > 0 {
		notes = append(notes, "Terraform's resources cannot say this; run it after each apply:\n  "+strings.Join(after, "\n  "))
	}
	return append(out, '\n'), notes, err
}

// foundations adds what the description's resources stand on: the APIs, Google's own service
// accounts, and the functions' source.
func (t *terraform) foundations() {
	t.add("google_project_service", "api", block{
		"for_each":           setOf(t.APIs),
		"service":            "${each.value}",
		"disable_on_destroy": false, // others may use it
	})

	// The first trigger needs the service agents.
	t.next()
	t.add("google_project_service_identity", "agent", block{
		"provider": "google-beta",
		"service":  "${each.value}",
		"for_each": setOf([]string{"eventarc.googleapis.com", "pubsub.googleapis.com"}),
	})

	t.add("google_storage_bucket", "source", block{
		"name":                        t.Project + "-tally-source",
		"location":                    segment(t.Job(), "locations"),
		"uniform_bucket_level_access": true,
		"force_destroy":               true, // it holds the functions' source, nothing else
	})
	t.add("google_storage_bucket_object", "source", block{
		"bucket": "${google_storage_bucket.source.name}",
		"name":   "${data.archive_file.source.output_sha256}.zip",
		"source": "${data.archive_file.source.output_path}",
	})
}

// ofKind adds the description's resources of a kind. It returns the commands for those that no
// resource of Terraform's says.
func (t *terraform) ofKind(k *Kind) []string {
	var commands []string
	for _, r := range t.Resources {
		if r.Kind != k {
			continue
		}

		if r.terraform != "" {
			t.resource(r)
			continue
		}

		changes := r.differs(r.missing)
		if len(changes) > 0 {
			commands = append(commands, r.command(t.Project, r.missing, changes).String())
		}
	}
	return commands
}

// configuration returns all of the configuration. files are the source's, below folder.
func (t *terraform) configuration(folder string, files []string) block {
	providers := block{
		"google":      block{"source": "hashicorp/google", "version": ">= 6.50, < 8.0"},
		"google-beta": block{"source": "hashicorp/google-beta", "version": ">= 6.50, < 8.0"}, // for google_project_service_identity
		"archive":     block{"source": "hashicorp/archive", "version": ">= 2.4"},
	}
	clone := block{
		"description": "Folder of Tally's source, which the functions are built from.",
		"type":        "string",
		"default":     folder,
	}

	var source []block
	for _, name := range files {
		content := fmt.Sprintf("${file(%q)}", "${var.clone}/"+escape(name))
		source = append(source, block{"filename": name, "content": content})
	}
	archive := block{"type": "zip", "output_path": "${path.module}/.terraform/tally.zip", "source": source}

	return block{
		"terraform": block{"required_version": ">= 1.5", "required_providers": providers},
		"variable":  block{"clone": clone},
		"data": block{
			"google_project": block{"project": block{"project_id": t.Project}},
			"archive_file":   block{"source": archive},
		},
		"resource": t.resources,
	}
}

// A block is one of Terraform's, or an object.
type block = map[string]any

// terraform is a configuration in the making.
type terraform struct {
	*Description
	resources map[string]map[string]block // by type and name

	// What is added waits for the resources at the addresses in needs. made are the addresses that
	// were added since.
	needs, made []string
}

// next makes the following resources wait for the ones before, in the order of tally deploy.
func (t *terraform) next() {
	if len(t.made) > 0 {
		t.needs, t.made = t.made, nil
	}
}

// add adds a resource.
func (t *terraform) add(kind, name string, b block) {
	b["project"] = t.Project
	if kind == "google_storage_bucket_object" || kind == "google_service_account_iam_member" {
		delete(b, "project") // their parents have it
	}

	if len(t.needs) > 0 {
		b["depends_on"] = t.needs
	}

	if t.resources[kind] == nil {
		t.resources[kind] = make(map[string]block)
	}
	t.resources[kind][name] = b

	// Nothing waits for a field: nothing needs it, and the provider itself waits until its time to
	// live has taken effect, which may take long.
	if kind != Field.terraform {
		t.made = append(t.made, kind+"."+name)
	}
}

// resource adds a resource.
func (t *terraform) resource(r Resource) {
	switch r.Kind {
	case Index:
		t.index(r)
	case Field, TTL:
		t.field(r)
	case Cleanup:
		t.cleanup(r)
	case Channel:
		t.add(r.terraform, "email", block{
			"display_name": "Tally",
			"type":         "email",
			"labels":       block{"email_address": escape(r.Name)},
			"user_labels":  block{label: "alerts"},
		})
	default:
		id, b := t.arguments(r)
		t.add(r.terraform, identifier(id), b)
	}
}

// arguments returns a resource's id and its arguments: those that its settings or its content give,
// and those that its kind has in Terraform alone.
func (t *terraform) arguments(r Resource) (string, block) {
	id, location := path.Base(r.Name), segment(r.Name, "locations")
	b := settingsOf(r)

	switch r.Kind {
	case Account:
		id, _, _ = strings.Cut(id, "@")
		b["account_id"] = id

	case Repository:
		b["location"], b["repository_id"], b["format"] = location, id, "DOCKER"

	case Function:
		delete(b, "state")
		b["location"], b["name"] = location, id
		set(b, "buildConfig.source.storageSource", block{
			"bucket": "${google_storage_bucket.source.name}",
			"object": "${google_storage_bucket_object.source.name}",
		})

	case Trigger:
		delete(b, "event_filters")
		b["location"], b["name"] = location, id
		b["matching_criteria"] = criteria(r)
		b["destination"] = block{"cloud_run_service": b["destination"].(block)["cloud_run"]}

	case Job:
		const uri = "${google_cloudfunctions2_function." + OnScheduleName + ".service_config[0].uri}"
		b["region"], b["name"] = location, id
		set(b, "httpTarget.uri", uri)
		set(b, "httpTarget.oidcToken.audience", uri)

	case Metric, Exclusion:
		b["name"] = id

	case Alert:
		b = snake(r.Content).(block)
		if t.resources[Channel.terraform] != nil {
			b["notification_channels"] = []string{"${google_monitoring_notification_channel.email.name}"}
		}

	case Dashboard:
		b = block{"dashboard_json": escape(r.Content.text())}
	}
	return id, b
}

// settingsOf returns the settings of a resource that are not empty, by Terraform's names.
func settingsOf(r Resource) block {
	b := make(block)
	for _, s := range r.Settings {
		if s.Path != "" && s.Want != "" {
			set(b, s.Path, escape(s.Want))
		}
	}
	return b
}

// criteria returns the filters of a trigger.
func criteria(trigger Resource) []block {
	var criteria []block
	for _, s := range trigger.Settings {
		attribute, ok := strings.CutPrefix(s.Path, "eventFilters.")
		if !ok {
			continue
		}

		_, value, _ := strings.Cut(s.Arg, attribute+"=")
		c := block{"attribute": attribute, "value": escape(value)}
		if attribute == "document" {
			c["operator"] = "match-path-pattern"
		}
		criteria = append(criteria, c)
	}
	return criteria
}

// field adds what is said of a field: its indexes, or its time to live. The provider has one resource
// for both, which is absent while both are as Firestore has them by default.
func (t *terraform) field(r Resource) {
	group, id := segment(r.Name, "collectionGroups"), path.Base(r.Name)
	hash := sha256.Sum256([]byte(r.Name)) // ids may have characters that identifier replaces
	name := fmt.Sprintf("tally-%s-%x", identifier(group+"-"+id), hash[:3])

	field := t.resources[Field.terraform][name]
	if field == nil {
		field = block{"database": segment(r.Name, "databases"), "collection": escape(group), "field": escape(id)}
	}

	settings := settingsOf(r)
	switch {
	case settings["expires"] != nil:
		field["ttl_config"] = block{}
	case settings["indexed"] != nil:
		field["index_config"] = block{} // no index
	default:
		return
	}
	t.add(Field.terraform, name, field)
}

// cleanup adds the policies of clean-up to their repository, which has been added before.
func (t *terraform) cleanup(r Resource) {
	repository := t.resources[Repository.terraform][identifier(path.Base(r.Name))]
	repository["cleanup_policies"] = cleanupBlocks(r.Content)
	repository["cleanup_policy_dry_run"] = false
}

// index adds an index, and waits until it is ready, which may take hours.
func (t *terraform) index(r Resource) {
	var fields []block
	for _, f := range r.index.Fields {
		fields = append(fields, block{"field_path": escape(string(f.Field)), "order": orderOf(f)})
	}

	hash := sha256.Sum256([]byte(r.Name)) // ids may have characters that identifier replaces
	name := fmt.Sprintf("tally-%s-%x", identifier(r.index.Collection), hash[:3])
	t.add(r.terraform, name, block{
		"database":    segment(r.Name, "databases"),
		"collection":  escape(r.index.Collection),
		"query_scope": collectionScope,
		"fields":      fields,
		"timeouts":    block{"create": "24h"},
	})
}

// cleanupBlocks returns the policies of clean-up as the list that the provider takes.
func cleanupBlocks(policies Object) []block {
	var blocks []block
	for _, id := range slices.Sorted(maps.Keys(policies)) {
		b := snake(policies[id]).(block)
		b["id"] = id
		blocks = append(blocks, b)
	}
	return blocks
}

// grant adds a role of a member.
func (t *terraform) grant(g Grant) {
	kind := "google_project_iam_member"
	id, location := path.Base(g.Name), segment(g.Name, "locations")
	b := block{"role": g.Role, "member": g.Member}

	switch g.On {
	case Account:
		kind = "google_service_account_iam_member"
		b["service_account_id"] = g.Name
	case Repository:
		kind = "google_artifact_registry_repository_iam_member"
		b["location"], b["repository"] = location, id
	case Service:
		kind = "google_cloud_run_v2_service_iam_member"
		b["location"], b["name"] = location, "${google_cloudfunctions2_function."+id+".name}"
	}

	if g.Condition != "" {
		b["condition"] = block{"title": conditionTitle, "expression": g.Condition}
	}
	t.add(kind, identifier(short(g.Member)+"-"+path.Base(g.Role)), b)
}

// set puts a value in b under Terraform's names for a path of the API's JSON.
func set(b block, path string, value any) {
	name, rest, found := strings.Cut(path, ".")
	name = snakeCase(name)
	if !found {
		b[name] = value
		return
	}

	if b[name] == nil {
		b[name] = make(block)
	}
	inner := b[name].(block)

	if name == "environment_variables" { // rest is a variable's name, which stays as it is
		inner[rest] = value
		return
	}
	set(inner, rest, value)
}

// snake returns the content under Terraform's names. Labels stay as they are: their keys have no
// upper case.
func snake(content any) any {
	switch c := content.(type) {
	case Object:
		b := make(block)
		for name, value := range c {
			b[snakeCase(name)] = snake(value)
		}
		return b
	case []any:
		var all []any
		for _, element := range c {
			all = append(all, snake(element))
		}
		return all
	case string:
		return escape(c)
	}
	return content
}

func snakeCase(name string) string {
	return regexp.MustCompile("[A-Z]").ReplaceAllStringFunc(name, func(s string) string { return "_" + strings.ToLower(s) })
}

// escape returns the text with its signs of a template escaped, so that Terraform takes it literally.
func escape(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(text)
}

// identifier returns text as a part of a resource's name.
func identifier(text string) string {
	return regexp.MustCompile("[^A-Za-z0-9_-]+").ReplaceAllString(text, "-")
}

// setOf returns an expression for a set of the texts, as for_each takes it.
func setOf(texts []string) string { return `${toset(["` + strings.Join(texts, `", "`) + `"])}` }
