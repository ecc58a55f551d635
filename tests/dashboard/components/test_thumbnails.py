"""The wall of thumbnails: what the browser gets."""

import base64
import json

import numpy as np

from dashboard.components.thumbnails import NOTHING
from support import pages


def page():
    import numpy as np

    from dashboard.components.thumbnails import wall

    matrices = np.array([[[np.nan, -0.5], [0.0, 0.5]], [[1.0, 2.0], [np.nan, 1.0]]])
    wall(matrices, ["<b>one</b>", "two"], ["1", "2"], "wall", lambda position: None, label="All")


def test_values_are_bytes_of_a_colour_scale_and_nothing_where_there_is_none():
    app = pages.draw_page(page)
    data = json.loads(next(one for one in app.main if one.type == "bidi_component").proto.json)
    assert list(base64.b64decode(data["values"])) == [NOTHING, 0, 0, 127, 254, 254, NOTHING, 254]
    colours = np.frombuffer(base64.b64decode(data["colours"]), np.uint8).reshape(-1, 3)
    assert len(colours) == NOTHING and tuple(colours[0]) == (0, 34, 78), "dark blue for 0"
    assert tuple(colours[-1]) == (254, 232, 56), "yellow for 1"
    assert data["titles"] == ["<b>one</b>", "two"] and data["size"] == 2
