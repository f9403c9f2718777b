package googletest

import (
	"fmt"
	"path"
	"strings"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Composite indexes of Firestore:
// https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.indexes

// createIndex begins to build an index, unless there is one like it.
func (c *call) createIndex(x *adminpb.Index) (proto.Message, error) {
	x.Fields = named(x.Fields)
	for name, m := range c.resources {
		other, ok := m.(*adminpb.Index)
		if ok && path.Dir(name) == c.resource+"/indexes" && written(other) == written(x) {
			return nil, status.Error(codes.AlreadyExists, "index already exists")
		}
	}

	x.State, x.ApiScope, x.Density = adminpb.Index_CREATING, adminpb.Index_ANY_API, adminpb.Index_SPARSE_ALL
	if c.isEnterprise(c.resource) {
		x.Density = adminpb.Index_DENSE
	}
	if c.Builds == 0 {
		x.State = adminpb.Index_READY
	}
	_, err := c.create()
	if err != nil {
		return nil, err
	}

	operation := c.done(x)
	if x.State == adminpb.Index_CREATING {
		c.looks[x.Name] = 0
		operation.Done, operation.Result = false, nil
	}
	return operation, nil
}

// named returns the fields of an index with __name__ at the end, which has the direction of the one
// before.
func named(fields []*adminpb.Index_IndexField) []*adminpb.Index_IndexField {
	last := fields[len(fields)-1]
	if last.FieldPath == "__name__" {
		return fields
	}
	return append(fields, &adminpb.Index_IndexField{FieldPath: "__name__", ValueMode: last.ValueMode})
}

// written returns a text that is the same for indexes of the same scope and fields.
func written(x *adminpb.Index) string {
	text := x.QueryScope.String()
	for _, f := range x.Fields {
		text += fmt.Sprint(" ", f.FieldPath, f.GetOrder(), f.GetArrayConfig())
	}
	return text
}

// isEnterprise reports whether a resource is of a database of the Enterprise edition.
func (g *Google) isEnterprise(name string) bool {
	database, _, _ := strings.Cut(name, "/collectionGroups/")
	d, _ := g.resources[database].(*adminpb.Database)
	return d.GetDatabaseEdition() == adminpb.Database_ENTERPRISE
}

// build goes on with the indexes that are being built, at each look.
func (g *Google) build() {
	if g.Builds <= 0 {
		return
	}
	for name := range g.looks {
		g.looks[name]++
		x, isThere := g.resources[name].(*adminpb.Index)
		if isThere && g.looks[name] > g.Builds {
			x.State = adminpb.Index_READY
		}
	}
}
