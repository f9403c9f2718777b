"""Compares the ids that the Python of docs/clients.md gives with those that Tally makes."""

import datetime as dates
import json
import sys
import zoneinfo

file, day_code, month_code = sys.argv[1:]
compared = 0
for made in json.load(open(file)):
    at = dates.datetime.fromisoformat(made["at"].replace("Z", "+00:00"))
    if not 1 < at.year < 9999:  # days and months that are cut off have no id
        continue

    class datetime:
        def now(zone):
            return at.astimezone(zone)

    names = {"datetime": datetime, "ZoneInfo": lambda _: zoneinfo.ZoneInfo(made["zone"])}
    names["day"] = day = eval(day_code, names)
    month = eval(month_code, names)
    if made.get("again"):  # clients.md says so
        if day == made["day"]:
            sys.exit(f"{made}: it is the date that clocks show")
        continue
    compared += 1
    if (day, month) != (made["day"], made["month"]):
        sys.exit(f"{made}: got {day} in {month}")
if compared < 100:
    sys.exit(f"{compared} times were compared")
