"""Compares the ids that the Python of docs/clients.md gives with those that Tally makes."""

import datetime as dates
import json
import sys
import zoneinfo

file, day_code, week_code, month_code = sys.argv[1:]
compared = 0
for made in json.load(open(file)):
    at = dates.datetime.fromisoformat(made["at"].replace("Z", "+00:00"))
    if not 1 < at.year < 9999:  # those that are cut off have no id
        continue

    class datetime:
        def now(zone):
            return at.astimezone(zone)

    names = {"datetime": datetime, "ZoneInfo": lambda _: zoneinfo.ZoneInfo(made["zone"])}
    names["day"] = day = eval(day_code, names)
    week = eval(week_code, names)
    month = eval(month_code, names)
    if made.get("again"):  # clients.md says so
        if day == made["day"]:
            sys.exit(f"{made}: it is the date that clocks show")
        continue
    compared += 1
    if (day, week, month) != (made["day"], made["week"], made["month"]):
        sys.exit(f"{made}: got {day}, {week} and {month}")
if compared < 100:
    sys.exit(f"{compared} times were compared")
