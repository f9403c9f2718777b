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

// TerraformState returns the state of a project in which Terraform looks up what Google gives.
func TerraformState(id string) *State {
	s := newState(id)
	s.Number = "${data.google_project.project.number}"
	return s
}

// Terraform returns the description as a configuration in Terraform's JSON syntax
// (https://developer.hashicorp.com/terraform/language/syntax/json), and notes of what Terraform
// cannot say. folder is that of Tally's source, an absolute path. Arguments have the names of the API's fields,
// in snake case, unless resource says otherwise
// (https://registry.terraform.io/providers/hashicorp/google/latest/docs).
func (d *Description) Terraform(folder string) ([]byte, []string, error) {
	files, err := sourceFiles(os.DirFS(folder))
	if err != nil {
		return nil, nil, err
	}
	t := &terraform{Description: d, resources: make(map[string]map[string]block)}
	t.add("google_project_service", "api", block{"for_each": setOf(d.APIs), "service": "${each.value}", "disable_on_destroy": false}) // others may use it
	t.next()
	// Google's own service accounts, before the first trigger needs them.
	t.add("google_project_service_identity", "agent", block{"provider": "google-beta", "service": "${each.value}", "for_each": setOf([]string{"eventarc.googleapis.com", "pubsub.googleapis.com"})})
	t.add("google_storage_bucket", "source", block{"name": d.Project + "-tally-source", "location": segment(d.Job(), "locations"),
		"uniform_bucket_level_access": true, "force_destroy": true}) // it holds the functions' source, nothing else
	t.add("google_storage_bucket_object", "source", block{"bucket": "${google_storage_bucket.source.name}",
		"name": "${data.archive_file.source.output_sha256}.zip", "source": "${data.archive_file.source.output_path}"})
	var after []string
	for _, k := range kinds {
		t.next()
		for _, r := range d.Resources {
			if changes := r.differs(r.missing); r.Kind == k && r.terraform != "" {
				t.resource(r)
			} else if r.Kind == k && len(changes) > 0 { // no resource says it
				after = append(after, r.command(d.Project, r.missing, changes).String())
			}
		}
		t.next()
		for _, g := range d.Grants {
			if g.On == k {
				t.grant(g)
			}
		}
	}
	var source []block
	for _, name := range files {
		source = append(source, block{"filename": name, "content": fmt.Sprintf("${file(%q)}", "${var.clone}/"+escape(name))})
	}
	out, err := json.MarshalIndent(block{
		"terraform": block{"required_version": ">= 1.5", "required_providers": block{
			"google":      block{"source": "hashicorp/google", "version": ">= 6.50, < 8.0"},
			"google-beta": block{"source": "hashicorp/google-beta", "version": ">= 6.50, < 8.0"}, // for google_project_service_identity
			"archive":     block{"source": "hashicorp/archive", "version": ">= 2.4"},
		}},
		"variable": block{"clone": block{"description": "Folder of Tally's source, which the functions are built from.", "type": "string", "default": folder}},
		"data": block{
			"google_project": block{"project": block{"project_id": d.Project}},
			"archive_file":   block{"source": block{"type": "zip", "output_path": "${path.module}/.terraform/tally.zip", "source": source}},
		},
		"resource": t.resources,
	}, "", "  ")
	// https://github.com/hashicorp/terraform-provider-google/issues/11435
	notes := []string{"The provider enables APIs by this one; in a new project run it before the first apply:\n  " +
		gcloud("services", "enable", "cloudresourcemanager.googleapis.com").in(d.Project).String()}
	if len(after) > 0 {
		notes = append(notes, "Terraform's resources cannot say this; run it after each apply:\n  "+strings.Join(after, "\n  "))
	}
	return append(out, '\n'), notes, err
}

// A block is one of Terraform's, or an object.
type block = map[string]any

// terraform is a configuration in the making.
type terraform struct {
	*Description
	resources   map[string]map[string]block // by type and name
	needs, made []string                    // addresses: the next wait for needs, and made came since
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
		delete(b, "project") // which their parents have
	}
	if len(t.needs) > 0 {
		b["depends_on"] = t.needs
	}
	if t.resources[kind] == nil {
		t.resources[kind] = make(map[string]block)
	}
	t.resources[kind][name] = b
	if kind != Field.terraform { // the provider waits for a time to live, which may take long, and nothing needs it
		t.made = append(t.made, kind+"."+name)
	}
}

// resource adds a resource.
func (t *terraform) resource(r Resource) {
	id, location := path.Base(r.Name), segment(r.Name, "locations")
	b := make(block)
	for _, s := range r.Settings {
		if s.Path != "" && s.Want != "" {
			set(b, s.Path, escape(s.Want))
		}
	}
	at := func(flag string) string { b[flag] = location; return id }
	switch r.Kind {
	case Index:
		t.index(r)
		return
	case Field, TTL:
		hash := sha256.Sum256([]byte(r.Name)) // ids may have characters that identifier replaces
		group := segment(r.Name, "collectionGroups")
		name := fmt.Sprintf("tally-%s-%x", identifier(group+"-"+id), hash[:3])
		field := t.resources[Field.terraform][name]
		if field == nil {
			field = block{"database": segment(r.Name, "databases"), "collection": escape(group), "field": escape(id)}
		}
		switch {
		case b["expires"] != nil:
			field["ttl_config"] = block{}
		case b["indexed"] != nil:
			field["index_config"] = block{} // none
		default:
			return // as it is by default
		}
		t.add(Field.terraform, name, field)
		return
	case Account:
		id, _, _ = strings.Cut(id, "@")
		b["account_id"] = id
	case Repository:
		b["repository_id"], b["format"] = at("location"), "DOCKER"
	case Cleanup: // which is said with the repository
		repository := t.resources[Repository.terraform][identifier(id)]
		repository["cleanup_policies"], repository["cleanup_policy_dry_run"] = cleanupBlocks(r.Content), false
		return
	case Function:
		delete(b, "state")
		b["name"] = at("location")
		set(b, "buildConfig.source.storageSource", block{"bucket": "${google_storage_bucket.source.name}", "object": "${google_storage_bucket_object.source.name}"})
	case Trigger:
		b["name"] = at("location")
		var criteria []block
		for _, s := range r.Settings {
			if attribute, ok := strings.CutPrefix(s.Path, "eventFilters."); ok {
				_, value, _ := strings.Cut(s.Arg, attribute+"=")
				c := block{"attribute": attribute, "value": escape(value)}
				if attribute == "document" {
					c["operator"] = "match-path-pattern"
				}
				criteria = append(criteria, c)
			}
		}
		delete(b, "event_filters")
		b["matching_criteria"] = criteria
		b["destination"] = block{"cloud_run_service": b["destination"].(block)["cloud_run"]}
	case Job:
		b["name"] = at("region")
		const uri = "${google_cloudfunctions2_function." + OnScheduleName + ".service_config[0].uri}"
		set(b, "httpTarget.uri", uri)
		set(b, "httpTarget.oidcToken.audience", uri)
	case Channel:
		id = "email"
		b = block{"display_name": "Tally", "type": "email", "labels": block{"email_address": escape(r.Name)}, "user_labels": block{label: "alerts"}}
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
	t.add(r.terraform, identifier(id), b)
}

// index adds an index, and waits until it is ready, which may take hours.
func (t *terraform) index(r Resource) {
	var fields []block
	for _, f := range r.index.Fields {
		fields = append(fields, block{"field_path": escape(string(f.Field)), "order": orderOf(f)})
	}
	hash := sha256.Sum256([]byte(r.Name)) // ids may have characters that identifier replaces
	t.add(r.terraform, fmt.Sprintf("tally-%s-%x", identifier(r.index.Collection), hash[:3]), block{
		"database": segment(r.Name, "databases"), "collection": escape(r.index.Collection),
		"query_scope": collectionScope, "fields": fields, "timeouts": block{"create": "24h"},
	})
}

// cleanupBlocks returns the policies of clean-up as the provider has them: a list.
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
	b := block{"role": g.Role, "member": g.Member}
	id, location := path.Base(g.Name), segment(g.Name, "locations")
	kind := "google_project_iam_member"
	switch g.On {
	case Account:
		kind, b["service_account_id"] = "google_service_account_iam_member", g.Name
	case Repository:
		kind, b["location"], b["repository"] = "google_artifact_registry_repository_iam_member", location, id
	case Service:
		kind, b["location"], b["name"] = "google_cloud_run_v2_service_iam_member", location, "${google_cloudfunctions2_function."+id+".name}"
	}
	if g.Condition != "" {
		b["condition"] = block{"title": conditionTitle, "expression": g.Condition}
	}
	t.add(kind, identifier(short(g.Member)+"-"+path.Base(g.Role)), b)
}

// set puts a value where the path of the API's JSON is in Terraform.
func set(b block, path string, value any) {
	name, rest, found := strings.Cut(path, ".")
	if name = snakeCase(name); !found {
		b[name] = value
		return
	}
	if b[name] == nil {
		b[name] = make(block)
	}
	inner := b[name].(block)
	if name == "environment_variables" {
		inner[rest] = value
		return
	}
	set(inner, rest, value)
}

// snake returns the content with the names of Terraform. Keys of labels have no upper case.
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

// escape returns text that is no template.
func escape(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(text)
}

// identifier returns text as a part of a resource's name.
func identifier(text string) string {
	return regexp.MustCompile("[^A-Za-z0-9_-]+").ReplaceAllString(text, "-")
}

// setOf returns a set of the texts, which for_each takes.
func setOf(texts []string) string { return `${toset(["` + strings.Join(texts, `", "`) + `"])}` }
