"""The wheel contains the licences of all code in its libraries."""
import importlib.metadata

import pytest


@pytest.mark.parametrize("name, says", [
    ("LICENSE", "The terp authors"),
    ("xxHash.txt", "Yann Collet"),
    ("jansson.txt", "Petri Lehtinen"),
])
def test_licence_is_in_the_wheel(name, says):
    wheel = importlib.metadata.distribution("h5z-terp")
    texts = [file.read_text() for file in wheel.files
             if "dist-info" in str(file) and file.name == name]
    assert len(texts) == 1
    assert says in texts[0]
