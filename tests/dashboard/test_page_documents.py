"""HTML of the pages: the address of the server that it hands to Streamlit's script."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from dashboard import page_documents


@pytest.mark.parametrize("base", ["", "/frontier/api"])
def test_a_page_names_the_server_before_the_script_that_asks_it(base):
    client = TestClient(Starlette(routes=page_documents.build_routes(base)))
    answer = client.get(f"{base}/tradeoff")
    document = answer.text
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-cache"
    assert 0 < document.index("BACKEND_BASE_URL") < document.index("<script type=")
    assert "<title>Frontier</title>" in document
    assert client.get(f"{base}/elsewhere").status_code == 404, "other paths stay Streamlit's"
