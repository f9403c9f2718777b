package deploy

import "fmt"

// Channel is the kind of channels by which Cloud Monitoring tells people of alerts. Cloud
// Monitoring gives them their names, so the address that a channel mails to tells them apart.
var Channel Kind = &channelKind{nameless{common{noun: "notification channel", from: MonitoringAPI, api: "v3",
	group: "beta monitoring channels"}}}

type channelKind struct{ nameless }

func (k *channelKind) key(o Object) string { return o.Get("labels.email_address") }

func (k *channelKind) label(o Object) string { return k.key(o) }

// A channel mails alerts to the address that is its name.
type channel struct{ wanted }

// channel adds the channel that mails alerts to the user's address, and returns it; nil if the user
// named no address.
func (d *Description) channel() *channel {
	if d.AlertEmail == "" {
		return nil
	}

	c := &channel{d.want(Channel, d.AlertEmail,
		Setting{Arg: "--type=email"},
		Setting{Arg: "--display-name=Tally"},
		Setting{Arg: "--channel-labels=email_address=" + d.AlertEmail},
		Setting{Arg: "--user-labels=" + purposeLabel + "=alerts"},
		Setting{Arg: markArg},
	)}
	d.add(c)
	return c
}

func (c *channel) exists() *Command {
	return c.listed(fmt.Sprintf("labels.email_address=%q AND userLabels.%s=%q", c.name, purposeLabel, "alerts"))
}

func (c *channel) terraform(t *terraform) {
	t.add(channelType, "email", block{
		"display_name": "Tally",
		"type":         "email",
		"labels":       block{"email_address": literal(c.name)},
		"user_labels":  block{purposeLabel: "alerts"},
	})
}
