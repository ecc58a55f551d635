"""The wall of thumbnails: what the browser gets."""

import base64
import json

import numpy as np

from dashboard.components.thumbnails import EMPTY_CELL
from support import pages


def page():
    import numpy as np

    from dashboard.components.thumbnails import draw_wall

    matrices = np.array([[[np.nan, -0.5], [0.0, 0.5]], [[1.0, 2.0], [np.nan, 1.0]]])
    draw_wall(matrices, ["<b>one</b>", "two"], ["1", "2"], "wall", lambda position: None, label="All")


def test_values_are_bytes_of_a_colour_scale_and_nothing_where_there_is_none():
    app = pages.draw_page(page)
    data = json.loads(next(one for one in app.main if one.type == "bidi_component").proto.json)
    assert list(base64.b64decode(data["values"])) == [EMPTY_CELL, 0, 0, 127, 254, 254, EMPTY_CELL, 254]
    colours = np.frombuffer(base64.b64decode(data["colours"]), np.uint8).reshape(-1, 3)
    assert len(colours) == EMPTY_CELL and tuple(colours[0]) == (0, 34, 78), "dark blue for 0"
    assert tuple(colours[-1]) == (254, 232, 56), "yellow for 1"
    assert data["titles"] == ["<b>one</b>", "two"] and data["size"] == 2
