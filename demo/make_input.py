#!/usr/bin/env python3
"""make_input: prints 60,000 invented readings of weather stations as JSON, always the same, about 7 MB."""

import json
import random

random.seed(1843)
STATIONS = ["Ljubljana", "Reykjavik", "Valparaiso", "Nairobi", "Sapporo", "Tromso", "Windhoek", "Hobart"]
SKIES = ["clear", "broken", "overcast", "rain", "snow", "fog"]

readings = [
    {
        "station": random.choice(STATIONS),
        "day": number // 8,
        "sky": [random.choice(SKIES) for _ in range(random.randrange(1, 5))],
        "celsius": round(random.gauss(11, 9), 2),
        "note": "reading %d" % number,
    }
    for number in range(60000)
]
print(json.dumps(readings))
