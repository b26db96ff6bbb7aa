"""packaging/zarr-extensions: what the codec writes and refuses, its schema, and
the sample data."""

import json
from pathlib import Path
import re

import numpy as np
import pytest

import h5z_terp
from fields import waves

jsonschema = pytest.importorskip("jsonschema")
zarr = pytest.importorskip("zarr")
if int(zarr.__version__.split(".")[0]) < 3:
    pytest.skip("Zarr 3 alone has such codecs", allow_module_level=True)
from h5z_terp.zarr import TerpCodec

FOLDER = (Path(__file__).resolve().parents[2] / "packaging" /
          "zarr-extensions" / "codecs" / "terp")
SCHEMA = json.loads((FOLDER / "schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

BOUNDS = [{"abs": 1e-3}, {"abs": 0}, {"abs": np.float32(2)}, {"rel": 0.5},
          {"pwr": 0.001}, {"pwr": 0.001, "floor": 1e-9},
          {"pwr": 0.001, "floor": 0.0}, {"psnr": 60}, {"lossless": True}]
MODES = [{}, {"keep_sign": "chunk"}, {"keep_sign": "values"},
         {"keep_sign": "none"}, {"valid_range": (0, 1)},
         {"valid_range": (None, 1)}, {"valid_range": (-1e300, np.inf)},
         {"valid_range": (None, None)}, {"pipeline": "auto"},
         {"pipeline": "ratio"}, {"pipeline": "huffman"}, {"pipeline": "speed"},
         {"predictor": "auto"}, {"predictor": "spline"},
         {"predictor": "lorenzo"}, {"effort": "default"}, {"effort": "fast"},
         {"effort": "best"}, {"dims": [33]}, {"dims": (4, 3, 11)},
         {"missing": -9999}, {"missing": np.float32(1e20)}, {"format": 1}]


def test_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_schema_describes_what_the_codec_writes(tmp_path, bound, mode):
    zarr.create_array(tmp_path / "a", shape=(40, 33), chunks=(40, 33),
                      dtype="f4", compressors=None,
                      serializer=TerpCodec(**bound, **mode))
    (codec,) = json.loads((tmp_path / "a" / "zarr.json").read_text())["codecs"]
    VALIDATOR.validate(codec)
    assert TerpCodec.from_dict(codec).to_dict()["configuration"] == (
        TerpCodec(**bound, **mode).to_dict()["configuration"])


# The codec also takes null and names of defaults, which it does not write.
WRONG = [{}, {"abs": -1}, {"abs": 1, "rel": 1}, {"rel": 0}, {"pwr": 1},
         {"psnr": 0}, {"lossless": False}, {"rel": 1, "floor": 1},
         {"pwr": 0.1, "floor": -1}, {"abs": 1, "keep_sign": "all"},
         {"abs": 1, "valid_range": [0]}, {"abs": 1, "valid_range": [0, 1, 2]},
         {"abs": 1, "pipeline": "fast"}, {"abs": 1, "predictor": "cubic"},
         {"abs": 1, "effort": "most"}, {"abs": 1, "dims": [0]},
         {"abs": 1, "dims": [1, 1, 1, 1]}, {"abs": 1, "level": 3},
         {"abs": 1, "missing": "none"}, {"abs": 1, "format": 2}]


@pytest.mark.parametrize("configuration", WRONG, ids=str)
def test_schema_refuses_what_the_codec_refuses(configuration):
    codec = {"name": "terp", "configuration": configuration}
    assert not VALIDATOR.is_valid(codec)
    with pytest.raises((TypeError, ValueError)):
        TerpCodec.from_dict(codec)


def test_schema_has_every_argument():
    """The codec writes digits and bits as pwr; Zarr has no members."""
    names = SCHEMA["properties"]["configuration"]["properties"]
    assert {*names, "digits", "bits", "members"} == set(
        h5z_terp._settings.Settings.__annotations__)


@pytest.mark.parametrize("codec", [
    {"name": "terp"}, {"name": "zfp", "configuration": {"abs": 1}},
    {"name": "terp", "configuration": {"abs": 1}, "more": 1}])
def test_schema_refuses_other_codecs(codec):
    assert not VALIDATOR.is_valid(codec)


def test_examples_in_the_text():
    text = (FOLDER / "README.md").read_text()
    examples = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        for codec in json.loads(example)["codecs"]:
            VALIDATOR.validate(codec)
    for link in re.findall(r"\]\((\.[^)]*)\)", text):
        assert (FOLDER / link).exists(), link


def test_sample_data():
    i, j = np.ogrid[:40, :33]
    values = (np.sin(i / 5) + np.sin(j / 7)).astype("f4")
    path = FOLDER / "sample_data" / "terp_float32.zarr"
    array = zarr.open_array(path, mode="r")
    (codec,) = json.loads((path / "zarr.json").read_text())["codecs"]
    VALIDATOR.validate(codec)
    assert codec["configuration"] == {"abs": 0.001}
    # Half a unit of float32 for other libraries' sines.
    assert 0 < abs(array[...] - values).max() <= 0.001 + 2**-23
    np.testing.assert_allclose(values, waves((40, 33)), 0, 1e-6)
