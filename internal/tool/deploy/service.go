package deploy

// Service is the kind of services of Cloud Run. Cloud Functions makes one for each function.
var Service Kind = &common{noun: "service", from: runAPI, api: "v2", group: "run services", place: "--region"}

// A service is the service of RollUpOnWrite.
type service struct{ wanted }

// service adds the way in which RollUpOnWrite's instances are billed. Only Cloud Run has a setting
// for it; Cloud Functions has none.
// https://cloud.google.com/run/docs/configuring/billing-settings
func (d *Description) service() {
	billing := Setting{Path: "template.containers.0.resources.cpuIdle", Want: "true", Arg: "--cpu-throttling"}
	if d.Billing == ByInstance {
		billing.Want, billing.Arg = "false", "--no-cpu-throttling"
	}
	d.add(&service{d.want(Service, d.in(d.region(), "services", OnWriteName), billing)})
}

func (s *service) absent() Object {
	idle := Object{"resources": Object{"cpuIdle": true}}
	return Object{"template": Object{"containers": []any{idle}}}
}

func (s *service) terraform(t *terraform) { t.afterwards(s) }
