package deploy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

// terraformState returns the state of a new project, whose number Terraform looks up.
func terraformState(id string) *State {
	s := newState(id)
	s.Number = "${data.google_project.project.number}"
	return s
}

// Terraform returns the description as a configuration in Terraform's JSON syntax
// (https://developer.hashicorp.com/terraform/language/syntax/json), and notes with the commands
// that Terraform cannot replace. folder is the absolute path of Tally's source. Arguments have the
// names of the API's fields in snake case, unless the terraform method of a resource says otherwise
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

	for _, k := range kinds {
		t.next()
		for _, r := range t.Resources {
			if r.Kind() == k {
				r.terraform(t)
			}
		}

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
	if len(t.after) > 0 {
		notes = append(notes, "Terraform's resources cannot say this; run it after each apply:\n  "+strings.Join(t.after, "\n  "))
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
		"for_each": setOf([]string{"cloudscheduler.googleapis.com", "eventarc.googleapis.com", "pubsub.googleapis.com"}),
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
		content := fmt.Sprintf("${file(%q)}", "${var.clone}/"+literal(name))
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

	// A resource that is added waits for those at the addresses in needs. made are the addresses of
	// the resources that were added since next was called.
	needs, made []string

	after []string // commands that are to be run after each apply
}

// Types of the resources that Google's provider has.
const (
	accountType    = "google_service_account"
	repositoryType = "google_artifact_registry_repository"
	fieldType      = "google_firestore_field"
	indexType      = "google_firestore_index"
	exclusionType  = "google_logging_project_exclusion"
	functionType   = "google_cloudfunctions2_function"
	triggerType    = "google_eventarc_trigger"
	jobType        = "google_cloud_scheduler_job"
	metricType     = "google_logging_metric"
	channelType    = "google_monitoring_notification_channel"
	alertType      = "google_monitoring_alert_policy"
	dashboardType  = "google_monitoring_dashboard"
)

// next has the resources that are added from now on wait for those that were added before.
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
	if kind != fieldType {
		t.made = append(t.made, kind+"."+name)
	}
}

// afterwards adds the command that changes a resource after each apply, because no resource of
// Terraform's says it.
func (t *terraform) afterwards(r Resource) {
	changes := differences(r.Settings(), r.absent())
	if len(changes) > 0 {
		t.after = append(t.after, r.update(r.absent(), changes).String())
	}
}

// settingsOf returns the settings of a resource that are not empty, by Terraform's names.
func settingsOf(r Resource) block {
	b := make(block)
	for _, s := range r.Settings() {
		if s.Path != "" && s.Want != "" {
			set(b, s.Path, literal(s.Want))
		}
	}
	return b
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
	name := identifier(short(g.Member) + "-" + path.Base(g.Role))
	if t.resources[kind][name] != nil { // of more databases
		name = hashed(name, g.Condition)
	}
	t.add(kind, name, b)
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
		return literal(c)
	}
	return content
}

func snakeCase(name string) string {
	return regexp.MustCompile("[A-Z]").ReplaceAllStringFunc(name, func(s string) string { return "_" + strings.ToLower(s) })
}

// literal escapes the beginnings of Terraform's templates, so that Terraform takes the text
// literally.
func literal(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(text)
}

// identifier returns text as a part of a resource's name.
func identifier(text string) string {
	return regexp.MustCompile("[^A-Za-z0-9_-]+").ReplaceAllString(text, "-")
}

// hashed returns a part of a resource's name, which is readable and has a hash of name. The hash
// tells apart ids that identifier makes the same.
func hashed(readable, name string) string {
	hash := sha256.Sum256([]byte(name))
	return fmt.Sprintf("tally-%s-%x", identifier(readable), hash[:3])
}

// setOf returns an expression for a set of the texts, as for_each takes it.
func setOf(texts []string) string { return `${toset(["` + strings.Join(texts, `", "`) + `"])}` }
