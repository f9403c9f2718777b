package appfolder

import (
	"encoding/json"
	"reflect"
	"strings"
)

// SchemaURL is where editors find the schema of tally.yaml.
const SchemaURL = "https://raw.githubusercontent.com/firestore-tally/tally/main/docs/tally.schema.json"

// A schema is a JSON schema (https://json-schema.org/draft-07), as far as tally.yaml needs it.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // a name or several
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Default     string             `json:"default,omitempty"`
	Minimum     int                `json:"minimum,omitempty"`
	Maximum     int                `json:"maximum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Others      any                `json:"additionalProperties,omitempty"` // false, or the schema of other properties
	Names       *schema            `json:"propertyNames,omitempty"`
}

// Schema returns the JSON schema of tally.yaml, by which editors complete and check it. variables
// are those that the key env may hold, with their tags "envDefault" and "means".
func Schema(variables map[string]reflect.StructTag) ([]byte, error) {
	root := &schema{
		Schema: "http://json-schema.org/draft-07/schema#", ID: SchemaURL,
		Title: "tally.yaml", Description: "The totals that Tally keeps for an app.",
		Type: "object", Properties: make(map[string]*schema), Others: false,
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		key := f.Tag.Get("yaml")
		s := schemaOf(reflect.New(f.Type).Interface())
		s.Description, s.Enum = f.Tag.Get("means"), choices[key]
		root.Properties[key] = s
	}

	// The types of the fields do not tell these.
	routes := root.Properties["routes"]
	routes.Type, routes.Items = []string{"string", "array"}, &schema{Type: "string"}
	root.Properties["max_instances"].Minimum = 1
	root.Properties["min_instances"].Minimum = 0
	root.Properties["region"].Pattern = region.String()
	alerts := root.Properties["alerts"]
	alerts.Type, alerts.Items = []string{"string", "array"}, &schema{Type: "string", Pattern: channel.String()}

	env := root.Properties["env"]
	env.Names, env.Properties = &schema{Pattern: variable.String()}, make(map[string]*schema)
	for name, tag := range variables {
		env.Properties[name] = &schema{Type: scalars, Default: tag.Get("envDefault"), Description: tag.Get("means")}
	}

	ports := root.Properties["dev"]
	ports.Others, ports.Properties = false, make(map[string]*schema)
	for _, name := range devPorts {
		ports.Properties[name] = &schema{Type: "integer", Maximum: highestPort}
	}

	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(root)
	return []byte(text.String()), err
}

// scalars are the types of values that are taken as they are written.
var scalars = []string{"string", "number", "boolean"}

// schemaOf returns the schema of the field of Settings that field points to.
func schemaOf(field any) *schema {
	switch field.(type) {
	case *[]string:
		return &schema{Type: "array", Items: &schema{Type: "string"}}
	case **int:
		return &schema{Type: "integer"}
	case *map[string]int:
		return &schema{Type: "object"}
	case *map[string]string:
		return &schema{Type: "object", Others: &schema{Type: scalars}}
	}
	return &schema{Type: "string"}
}
